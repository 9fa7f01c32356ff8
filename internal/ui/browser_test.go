package ui_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
		chromedp.WindowSize(1280, 900),
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
	b.do("sign in",
		chromedp.Navigate(b.base),
		chromedp.WaitVisible(`input[name="username"]`),
		chromedp.SendKeys(`input[name="username"]`, name),
		chromedp.SendKeys(`input[name="password"]`, password),
		chromedp.Click(`#login input[type="submit"], form[action="#/login"] input[type="submit"]`),
		chromedp.WaitVisible(`#menu`),
	)
}

// open goes to a page of the UI, such as "queues" or "queues/%2F/billing", and
// unfolds all of its sections.
func (b *browser) open(path string) {
	b.t.Helper()
	// Away first: the same page again would not be rendered anew.
	b.do("open "+path, chromedp.Navigate("about:blank"), chromedp.Navigate(b.base+"/#/"+path), chromedp.WaitVisible("#main h1"))
	b.unfold()
}

// unfold opens what is folded.
func (b *browser) unfold() {
	b.t.Helper()
	b.run(`document.querySelectorAll('#main .section-hidden > h2, #main .section-invisible > h2').forEach(h => h.click())`)
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
	deadline := time.Now().Add(patience)
	var missing []string
	for {
		shown := b.text()
		missing = nil
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				missing = append(missing, fmt.Sprintf("%q", text))
			}
		}
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.t.Errorf("the page does not show %s; it says:\n%s", strings.Join(missing, ", "), shown)
			return
		}
		time.Sleep(pollEvery) // between two looks
	}
}

// screenshot writes the whole page to a file, where somebody asks for that.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv(screenshotsVariable)
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.tab, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
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
