package topology

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/internal/secretfile"
	"github.com/delaybridge/delaybridge/internal/tlsurl"
)

// managementTimeout bounds one request. While a node of a cluster is silently
// gone, the others let requests hang for up to a minute.
const managementTimeout = 30 * time.Second

// Management asks RabbitMQ's management API about one virtual host. It only reads.
type Management struct {
	rawURL string
	base   *url.URL // without credentials
	user   string
	vhost  string
}

// NewManagement returns a client for the API at rawURL,
// http://user:password@host:15672, asking about vhost. Or at file:///path: the file
// has the URL, and is read anew for every request. The user needs the tag management
// and access to vhost. A URL of https:// may have the parameters cacertfile, certfile,
// keyfile, server_name_indication and tls_min_version, whose files are read now, and
// anew for every request, too. It does no other I/O.
func NewManagement(rawURL, vhost string) (*Management, error) {
	e, err := parseManagement(rawURL)
	if err != nil {
		return nil, err
	}
	if _, err := e.client(); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return &Management{rawURL: rawURL, base: e.base, user: e.user.Username(), vhost: vhost}, nil
}

// endpoint is what a URL of the API says.
type endpoint struct {
	base *url.URL // without credentials
	user *url.Userinfo
	tls  url.Values
}

// parseManagement reads a URL of the API, which may be in a file.
func parseManagement(rawURL string) (*endpoint, error) {
	rawURL, err := secretfile.Resolve(rawURL)
	if err != nil {
		return nil, fmt.Errorf("topology: %w: %w", ErrConfiguration, err)
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		// The parser's error repeats the URL, and with it the password.
		return nil, fmt.Errorf("topology: %w: it cannot be parsed; want http://user:password@host:15672", ErrConfiguration)
	case strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@"): // of a password that a / has cut off
		return nil, fmt.Errorf("topology: %w: there is an @ behind the host: in user and password, write / as %%2F, ? as %%3F, # as %%23 and @ as %%40", ErrConfiguration)
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return nil, fmt.Errorf("topology: %w: scheme %q and host %q; want http://user:password@host:15672", ErrConfiguration, u.Scheme, u.Host)
	}
	e := &endpoint{base: u, user: u.User, tls: u.Query()}
	if u.Scheme == "http" {
		if err := tlsurl.Unencrypted(e.tls, "https"); err != nil {
			return nil, fmt.Errorf("topology: %w: %w", ErrConfiguration, err)
		}
	}
	u.RawQuery, u.Fragment, u.RawFragment, u.User = "", "", "", nil // the API has its own query
	return e, nil
}

// client returns one for a request. The few requests do not pay for connections that have to be
// closed later.
func (e *endpoint) client() (*http.Client, error) {
	config, err := tlsurl.Config(e.tls, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	return &http.Client{
		Timeout:   managementTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: config},
	}, nil
}

// User returns who asks. Of a file it is the user that was in it at the start.
func (m *Management) User() string { return m.user }

// VHost returns the virtual host that is asked about.
func (m *Management) VHost() string { return m.vhost }

// Address returns the URL of what the API has at path, as for [Management.Get],
// without credentials.
func (m *Management) Address(path string) string {
	return strings.TrimRight(m.base.String(), "/") + "/api/" + strings.ReplaceAll(path, "{vhost}", url.PathEscape(m.vhost))
}

// String returns the address of the API, without credentials.
func (m *Management) String() string { return m.base.String() }

// Queues reads some columns, with commas between them, of the queues whose names match a regular
// expression, into a slice as for [Management.Get], however many other queues there are.
func (m *Management) Queues(ctx context.Context, names, columns string, into any) error {
	const most = 500 // queues in a page; the API allows no more
	var all []json.RawMessage
	for page, pages := 1, 1; page <= pages; page++ {
		var answer struct {
			Pages int               `json:"page_count"`
			Items []json.RawMessage `json:"items"`
		}
		query := url.Values{
			"page": {strconv.Itoa(page)}, "page_size": {strconv.Itoa(most)}, "columns": {columns},
			"use_regex": {"true"}, "name": {names},
		}
		if err := m.Get(ctx, "queues/{vhost}?"+query.Encode(), &answer); err != nil {
			return err
		}
		pages = answer.Pages
		all = append(all, answer.Items...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return decode(bytes.NewReader(text), into)
}

// decode leaves numbers as they are written: as a float64, a large one would not be. An object of which RabbitMQ
// knows nothing it shows as [], such as the connection of a channel that is new: what is in it stays zero.
func decode(from io.Reader, into any) error {
	decoder := json.NewDecoder(from)
	decoder.UseNumber()
	err := decoder.Decode(into)
	var other *json.UnmarshalTypeError // the rest is decoded
	if errors.As(err, &other) && other.Value == "array" && other.Field != "" && other.Type.Kind() == reflect.Struct {
		return nil
	}
	return err
}

// Get reads what the API shows at path, such as policies/{vhost}?columns=name, into a value
// for [json.Unmarshal]; {vhost} stands for the virtual host. Errors wrap
// ErrUnreachable, or ErrConfiguration where the user is refused or there is no
// such path.
func (m *Management) Get(ctx context.Context, path string, into any) error {
	e, err := parseManagement(m.rawURL)
	if err != nil {
		return err
	}
	client, err := e.client()
	if err != nil {
		return err
	}
	path, query, _ := strings.Cut(path, "?")
	at := e.base.JoinPath("api", strings.ReplaceAll(path, "{vhost}", url.PathEscape(m.vhost)))
	at.RawQuery = query
	address := at.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfiguration, address, err)
	}
	password, _ := e.user.Password()
	request.SetBasicAuth(e.user.Username(), password)
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("ask %s: %w", address, ctx.Err())
		}
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return fmt.Errorf("%w: the server's certificate is not trusted: %w", ErrConfiguration, err)
		}
		return fmt.Errorf("%w: %w; is the management plugin on (rabbitmq-plugins enable rabbitmq_management), and is this its port?", ErrUnreachable, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, address, err)
	}
	if err := m.refused(address, e.user.Username(), response, body); err != nil {
		return err
	}
	if err := decode(bytes.NewReader(body), into); err != nil {
		return fmt.Errorf("%w: %s answered, but not as RabbitMQ's management API does: %w", ErrConfiguration, address, err)
	}
	return nil
}

func (m *Management) refused(address, user string, response *http.Response, body []byte) error {
	var reason struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(body, &reason) != nil || reason.Reason == "" {
		reason.Reason = response.Status
	}
	switch {
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: %s: user %q is refused (%s): check the password; the user needs the tag management (rabbitmqctl set_user_tags) and access to virtual host %q",
			ErrConfiguration, address, user, strings.TrimSpace(reason.Reason), m.vhost)
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %s: there is no virtual host %q (rabbitmqctl add_vhost), or this is not the management API", ErrConfiguration, address, m.vhost)
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %s: %s", ErrUnreachable, address, reason.Reason)
	}
	return errors.New(address + ": " + response.Status + ": " + reason.Reason)
}
