package ui_test

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/delaybridge/delaybridge/internal/servers"
)

const (
	// patience is for what has no reason to take long, on a machine that may have.
	patience = time.Minute
	// pollEvery is how often a page is read again; the UI renews it every five seconds.
	pollEvery = 200 * time.Millisecond
)

// screenshotsVariable names a folder to write screenshots to; without it there are none.
const screenshotsVariable = "DELAYBRIDGE_SCREENSHOTS"

// browser is a tab of a headless Chromium with an empty profile of its own.
type browser struct {
	t    *testing.T
	tab  context.Context
	base string // of the UI
}

// openBrowser starts Chromium, which can reach nothing but this machine's loopback
// interface. It ends with the test.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	if err := servers.EnsureClients(t.Context(), map[string]string{"chromium": "chromium", "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu"}); err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, // root has none
		chromedp.DisableGPU,
		chromedp.WindowSize(1180, 1000),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.WSURLReadTimeout(patience),
	)
	allocated, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	tab, closeTab := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(tab, patience)
		defer cancel()
		_ = chromedp.Cancel(ctx) // waits for its end, so that its profile can be removed
		closeTab()
	})
	b := &browser{t: t, tab: tab}
	if err := chromedp.Do(tab); err != nil { // the first call's context is the browser's
		t.Fatalf("Chromium does not start: %v", err)
	}
	return b
}

// in has the browser report to another test.
func (b *browser) in(t *testing.T) *browser {
	t.Helper()
	other := *b
	other.t = t
	return &other
}

// do runs actions within the test's patience.
func (b *browser) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.tab, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v\nthe page says:\n%s", what, err, b.text())
	}
}

// signIn fills in the form.
func (b *browser) signIn(management string) {
	b.t.Helper()
	u, err := url.Parse(management)
	if err != nil {
		b.t.Fatal(err)
	}
	name := u.User.Username()
	password, _ := u.User.Password()
	u.User = nil
	b.base = u.String()
	b.navigate()
	b.do("sign in",
		chromedp.SendKeys(`input[name="username"]`, name),
		chromedp.SendKeys(`input[name="password"]`, password),
		chromedp.Click(`#login input[type="submit"], form[action="#/login"] input[type="submit"]`),
		chromedp.WaitVisible(`#menu`),
	)
	b.run("jQuery.fx.off = true") // what slides is neither there nor not
}

// navigate loads the UI, again where its form does not come: once, right after the
// starts of RabbitMQ 4.3 and Chromium, the page stayed empty for a minute.
func (b *browser) navigate() {
	b.t.Helper()
	const attempts = 2
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(b.tab, patience)
		err := chromedp.Do(ctx, chromedp.Navigate(b.base), chromedp.WaitVisible(`input[name="username"]`))
		cancel()
		if err == nil {
			return
		}
		if n == attempts {
			b.t.Fatalf("load %s: %v\nthe page says:\n%s", b.base, err, b.text())
		}
		b.t.Logf("attempt %d to load %s: %v", n, b.base, err)
	}
}

// open goes to a page of the UI, such as "queues", whose heading begins so.
func (b *browser) open(path, heading string) {
	b.t.Helper()
	b.run("location.hash = " + strconv.Quote("#/"+path))
	b.shows(heading)
}

// follow clicks on the first link to such a page, beside which there is such a text.
func (b *browser) follow(path, text, heading string) {
	b.t.Helper()
	b.awaitScript(fmt.Sprintf(`(() => {
		const link = [...document.querySelectorAll('#main tr a')].find(
			a => (a.getAttribute('href') || '').startsWith(%q) && a.closest('tr').innerText.includes(%q));
		if (link) link.click();
		return !!link;
	})()`, "#/"+path, text))
	b.shows(heading)
}

// unfold opens the sections whose heading begins so, where they are folded.
func (b *browser) unfold(headings ...string) {
	b.t.Helper()
	for _, heading := range headings {
		b.run(fmt.Sprintf(`document.querySelectorAll('#main h2').forEach(h => {
			const body = h.nextElementSibling;
			if (h.innerText.startsWith(%q) && body && getComputedStyle(body).display === 'none') h.click();
		})`, heading))
	}
}

// fetch has the page of a queue get messages and put them back, again and again until
// what it shows of them matches.
func (b *browser) fetch(most int, patterns ...string) {
	b.t.Helper()
	b.unfold("Get messages")
	for deadline := time.Now().Add(patience); ; <-time.After(pollEvery) {
		b.run(fmt.Sprintf(`{
			const form = document.querySelector('form[action="#/queues/get"]');
			document.querySelectorAll('.popup, [class^="form-popup"]').forEach(popup => popup.remove());
			document.querySelector('#msg-wrapper').innerHTML = '';
			form.querySelector('input[name="count"]').value = %d;
			form.querySelector('input[type="submit"]').click();
		}`, most))
		b.awaitScript(`document.querySelector('#msg-wrapper').innerText !== '' || document.body.innerText.includes('Queue is empty')`)
		shown := b.text()
		if missing := unmatched(patterns, shown); len(missing) == 0 {
			return
		} else if time.Now().After(deadline) {
			b.t.Fatalf("the messages do not show %q; the page says:\n%s", missing, shown)
		}
	}
}

// run evaluates a script for its effect.
func (b *browser) run(script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.tab, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[int](script+"; 0")); err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
}

// text is what the page shows.
func (b *browser) text() string {
	ctx, cancel := context.WithTimeout(b.tab, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`(document.querySelector('#main') || document.body).innerText`))
	return strings.Join(strings.Fields(text), " ")
}

// shows waits until the page shows each of these texts. White space is one blank.
func (b *browser) shows(texts ...string) {
	b.t.Helper()
	patterns := make([]string, len(texts))
	for i, text := range texts {
		patterns[i] = regexp.QuoteMeta(text)
	}
	b.matches(patterns...)
}

// matches waits until each of these regular expressions matches what the page shows.
func (b *browser) matches(patterns ...string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(pollEvery) {
		shown := b.text()
		missing := unmatched(patterns, shown)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the page does not show %q; it says:\n%s", missing, shown)
		}
	}
}

func unmatched(patterns []string, shown string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(shown) })
}

// awaitScript waits until a script is true.
func (b *browser) awaitScript(script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.tab, patience)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		if err != nil {
			b.t.Fatalf("%s: %v\nthe page says:\n%s", script, err, b.text())
		}
		if is {
			return
		}
		<-time.After(pollEvery)
	}
}

// screenshot writes what is in the window to a file, where somebody asks for that. The
// element that a script finds is at the top; without one that is the page's.
func (b *browser) screenshot(name, top string) {
	b.t.Helper()
	dir := os.Getenv(screenshotsVariable)
	if dir == "" {
		return
	}
	// The UI's own head covers the top.
	b.run("(" + cmp.Or(top, "document.body") + ").scrollIntoView(); window.scrollBy(0, -130)")
	ctx, cancel := context.WithTimeout(b.tab, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatalf("take a screenshot: %v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
