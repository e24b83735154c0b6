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
	"net/http"
	"strings"
)

// maxAnswer bounds what is read of a controller's answer; a system has some 10 KB.
const maxAnswer = 1 << 20

// redfishClient speaks with one controller.
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
		// the password goes nowhere else
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func (c *redfishClient) close() { c.http.CloseIdleConnections() }

// trusting is how the certificate of a controller is judged.
func trusting(how string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if how == "" {
		return conf
	}
	conf.InsecureSkipVerify = true // asked for; a pin is checked below
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

// call sends in as JSON (nil: no body) and decodes the answer into out (nil: not wanted). Every service takes basic
// authentication (DSP0266, 13.3); a session for three requests would be two requests more.
func (c *redfishClient) call(ctx context.Context, method, path, tag string, in, out any) (http.Header, error) {
	what := method + " " + path
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	req.SetBasicAuth(c.user, c.password)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if tag != "" {
		req.Header.Set("If-Match", tag)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err // it names method and address
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
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
