package power

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswer limits a controller's response, in bytes; a system has about 10 KB.
const maxAnswer = 1 << 20

// redfishClient sends requests to one controller.
type redfishClient struct {
	base, user, password string
	http                 *http.Client
}

func newRedfishClient(r Request) *redfishClient {
	c := &redfishClient{base: "https://" + r.To.Host, user: r.To.User, password: r.Password}
	if r.To.Plain {
		c.base = "http://" + r.To.Host
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:        trusting(r.To.TLS),
			DisableKeepAlives:      false,
			MaxResponseHeaderBytes: 64 << 10,
		},
		// call follows redirects itself: with method, body and password, and only to the same controller
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func (c *redfishClient) close() { c.http.CloseIdleConnections() }

// trusting returns the TLS configuration for a setting: "" verifies the certificate, "sha256:HEX" pins it, anything
// else accepts any certificate.
func trusting(how string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if how == "" {
		return conf
	}
	conf.InsecureSkipVerify = true // the setting asks for it; a pin is checked below
	want, pinned := strings.CutPrefix(how, "sha256:")
	if !pinned {
		return conf
	}
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("no certificate")
		}
		have := sha256.Sum256(s.PeerCertificates[0].Raw)
		if got := hex.EncodeToString(have[:]); !strings.EqualFold(got, want) {
			return fmt.Errorf("its certificate is sha256:%s and not the one of its setting", got)
		}
		return nil
	}
	return conf
}

// maxRedirects is how many redirects are followed; some controllers add a slash, then change the path.
const maxRedirects = 4

// call sends in as JSON (nil: no body) and decodes the response into out (nil: ignored). Every service accepts basic
// authentication (DSP0266, 13.3); a session would cost two more requests.
func (c *redfishClient) call(ctx context.Context, method, path, tag string, in, out any) (http.Header, error) {
	what := method + " " + path
	var body []byte
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		body = b
	}
	for range maxRedirects + 1 {
		res, answer, err := c.send(ctx, method, path, tag, body)
		if err != nil {
			return nil, err
		}
		if res.StatusCode/100 == 3 && res.Header.Get("Location") != "" {
			if path, err = redirected(res); err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			if res.StatusCode == http.StatusSeeOther {
				method, tag, body = http.MethodGet, "", nil
			}
			continue
		}
		if res.StatusCode/100 != 2 {
			return nil, &redfishError{what, res.StatusCode, says(answer)}
		}
		if out != nil {
			if err := json.Unmarshal(answer, out); err != nil {
				return nil, fmt.Errorf("%s: decode answer: %w", what, err)
			}
		}
		return res.Header, nil
	}
	return nil, fmt.Errorf("%s: the controller redirects more than %d times, the last time to %s",
		what, maxRedirects, path)
}

// send makes one request, and reads the response.
func (c *redfishClient) send(
	ctx context.Context, method, path, tag string, body []byte,
) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.SetBasicAuth(c.user, c.password)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if tag != "" {
		req.Header.Set("If-Match", tag)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err // the error names method and address
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return res, answer, nil
}

// redirected returns the path of a redirect. It must be on the same controller, because the password must not go
// elsewhere.
func redirected(res *http.Response) (string, error) {
	to, err := res.Location()
	if err != nil {
		return "", fmt.Errorf("redirect: %w", err)
	}
	from := res.Request.URL
	if to.Scheme != from.Scheme || to.User != nil || addressOf(to) != addressOf(from) {
		return "", fmt.Errorf("the controller redirects to %.100q, another address than %s: if that is the right "+
			"one, set it (pando node set NODE --power)", to.Redacted(), from.Host)
	}
	return local(to.RequestURI())
}

// addressOf returns the host of a URL, in lower case, with its port or the scheme's default port.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
