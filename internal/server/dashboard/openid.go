package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"pando/internal/api"
	"pando/internal/openid"
)

// Provider is an OpenID Connect provider where people log in.
type Provider interface {
	// Host returns the provider's name for the login page.
	Host() string
	// Begin returns the URL at the provider where a browser logs in.
	Begin(ctx context.Context, a openid.Attempt) (string, error)
	// Finish exchanges the code that a browser brings back from the provider, and returns the digest for a session.
	Finish(ctx context.Context, from, code string, a openid.Attempt) (digest [sha256.Size]byte, err error)
}

const (
	attemptCookie = "pando_login"
	attemptLife   = 10 * time.Minute
	attemptPath   = "/login/oidc"
	attemptBack   = attemptPath + "/callback"
	attemptRandom = 32 // bytes
)

// attemptOf returns the login attempt of a random value. State and nonce are derived from that value and this site's
// secret, so the server keeps nothing.
func (d *Dashboard) attemptOf(r *http.Request, random []byte) openid.Attempt {
	text := func(purpose string) string { return base64.RawURLEncoding.EncodeToString(d.code(purpose, random)) }
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return openid.Attempt{
		State:    text("login state"),
		Nonce:    text("login nonce"),
		Verifier: text("login verifier"),
		Redirect: scheme + r.Host + attemptBack,
	}
}

// beginLogin redirects a browser to the provider, with a cookie that identifies its attempt later.
func (d *Dashboard) beginLogin(w http.ResponseWriter, r *http.Request) {
	to := local(r.URL.Query().Get("to"))
	random := make([]byte, attemptRandom)
	rand.Read(random)
	away, err := d.Provider.Begin(r.Context(), d.attemptOf(r, random))
	if err != nil {
		d.failLogin(w, r, to, err)
		return
	}
	b := binary.BigEndian.AppendUint64(random, uint64(d.Now().Add(attemptLife).Unix()))
	b = append(b, to...)
	d.setAttempt(
		w,
		r,
		base64.RawURLEncoding.EncodeToString(append(d.code("login", b), b...)),
		int(attemptLife.Seconds()),
	)
	http.Redirect(w, r, away, http.StatusSeeOther)
}

// setAttempt sets the cookie of a login attempt. SameSite is lax, because the browser must send the cookie when the
// provider redirects it here.
func (d *Dashboard) setAttempt(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(
		w,
		&http.Cookie{
			Name:     attemptCookie,
			Value:    value,
			Path:     attemptPath,
			MaxAge:   age,
			HttpOnly: true,
			Secure:   r.TLS != nil,
			SameSite: http.SameSiteLaxMode,
		},
	)
}

// begun returns the login attempt that this browser started, and the path to go to afterwards.
func (d *Dashboard) begun(r *http.Request) (a openid.Attempt, to string, err error) {
	lost := api.NewError(api.Unauthorized, "this browser started no such login, or too long ago: log in again", "")
	cookie, err := r.Cookie(attemptCookie)
	if err != nil {
		return a, "/", lost
	}
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	const head = sha256.Size + attemptRandom + 8
	if err != nil || len(raw) < head || !hmac.Equal(raw[:sha256.Size], d.code("login", raw[sha256.Size:])) {
		return a, "/", lost
	}
	until := time.Unix(int64(binary.BigEndian.Uint64(raw[head-8:head])), 0)
	to = local(string(raw[head:]))
	a = d.attemptOf(r, raw[sha256.Size:sha256.Size+attemptRandom])
	if !d.Now().Before(until) || !hmac.Equal([]byte(a.State), []byte(r.URL.Query().Get("state"))) {
		return a, to, lost
	}
	return a, to, nil
}

// endLogin answers the request with which the provider sends a browser back.
func (d *Dashboard) endLogin(w http.ResponseWriter, r *http.Request) {
	d.setAttempt(w, r, "", -1) // an attempt can be used once
	a, to, err := d.begun(r)
	if err != nil {
		d.failLogin(w, r, to, err)
		return
	}
	q := r.URL.Query()
	if q.Get("error") != "" {
		d.failLogin(
			w,
			r,
			to,
			api.NewError(
				api.Unauthorized,
				d.Provider.Host()+" let nobody in: "+fmt.Sprintf("%.60q", q.Get("error")),
				"",
			),
		)
		return
	}
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	digest, err := d.Provider.Finish(r.Context(), from, q.Get("code"), a)
	if err != nil {
		d.failLogin(w, r, to, err)
		return
	}
	d.setCookie(w, r, d.seal(digest, d.Now().Add(sessionLife)), int(sessionLife.Seconds()))
	// After a redirect from another site, a browser sends the new session cookie only from the next page on, so this
	// page is in between.
	w.Header().Set("Refresh", "0;url="+to)
	d.show(w, r, http.StatusOK, "", view{template: "welcome.html", title: "Logged in", data: to})
}

// failLogin shows the login page with the error, because people may have a password here too.
func (d *Dashboard) failLogin(w http.ResponseWriter, r *http.Request, to string, err error) {
	failure, status := err.Error(), http.StatusInternalServerError
	var e *api.Error
	if errors.As(err, &e) {
		if failure, status = e.Message, e.Code.Status(); e.Hint != "" {
			failure += ": " + e.Hint
		}
	}
	if status >= http.StatusInternalServerError {
		d.Log.Error("login failed", "path", r.URL.Path, "err", err)
	}
	d.showLoginPage(w, r, status, loginView{To: to, Failure: failure})
}

// showLoginPage shows the login page, with a button for the provider if there is one.
func (d *Dashboard) showLoginPage(w http.ResponseWriter, r *http.Request, status int, v loginView) {
	if d.Provider != nil {
		v.Provider, v.Away = d.Provider.Host(), attemptPath+"?"+url.Values{"to": {v.To}}.Encode()
	}
	d.show(w, r, status, "", view{template: "login.html", title: "Log in", data: v})
}
