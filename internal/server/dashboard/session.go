package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// sessionCookie is the cookie's name; sessionLife is how long a session is valid.
const (
	sessionCookie = "pando_session"
	sessionLife   = 12 * time.Hour
)

// session is the caller of a request. Form is the token against cross-site request forgery that every form must carry.
type session struct {
	Name string // of the token or user; "" without a login
	Role fleet.Role
	Form string
}

// Changes reports whether the caller may change something. Pages show forms only then.
func (s session) Changes() bool { return s.Role.May(fleet.Operator) }

// Admin reports whether the caller may see users, tokens and the audit log.
func (s session) Admin() bool { return s.Role.May(fleet.Admin) }

type sessionKey struct{}

// code returns a MAC of data by this site's secret, for one purpose.
func (d *Dashboard) code(purpose string, data []byte) []byte {
	m := hmac.New(sha256.New, d.Secret)
	m.Write([]byte("pando dashboard " + purpose + " v1\x00"))
	m.Write(data)
	return m.Sum(nil)
}

// sessionNonce is the number of random bytes that make each cookie unique.
const sessionNonce = 8

// seal returns a cookie's value: digest of the token or user, end of the session, random bytes, and a MAC of these.
func (d *Dashboard) seal(digest [sha256.Size]byte, until time.Time) string {
	b := binary.BigEndian.AppendUint64(digest[:], uint64(until.Unix()))
	b = append(b, make([]byte, sessionNonce)...)
	_, _ = rand.Read(b[len(b)-sessionNonce:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(append(b, d.code("session", b)...))
}

// unseal is the inverse of seal. It does not check whether the token or user still exists.
func (d *Dashboard) unseal(value string) (digest [sha256.Size]byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(value)
	const body = sha256.Size + 8 + sessionNonce
	if err != nil || len(raw) != body+sha256.Size || !hmac.Equal(raw[body:], d.code("session", raw[:body])) {
		return digest, false
	}
	until := time.Unix(int64(binary.BigEndian.Uint64(raw[sha256.Size:])), 0)
	return [sha256.Size]byte(raw), d.Now().Before(until)
}

// formOf returns the form token of a session.
func (d *Dashboard) formOf(cookie string) string {
	return base64.RawURLEncoding.EncodeToString(d.code("form", []byte(cookie)))
}

// operator passes only requests with a session on to h, and sends the others to the login.
func (d *Dashboard) operator(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(api.WithRemote(r.Context(), r.RemoteAddr))
		if d.Open {
			h(
				w,
				r.WithContext(
					context.WithValue(r.Context(), sessionKey{}, session{Role: fleet.Admin, Form: d.formOf("")}),
				),
			)
			return
		}
		ctx, s, err := d.enter(r)
		var refused *api.Error
		switch {
		case err == nil:
			h(w, r.WithContext(context.WithValue(ctx, sessionKey{}, s)))
		case errors.As(err, &refused) && refused.Code == api.Unauthorized:
			d.askLogin(w, r)
		default:
			d.refuse(w, r, err)
		}
	})
}

// enter returns the session of a request, and a context with its caller.
func (d *Dashboard) enter(r *http.Request) (context.Context, session, error) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil, session{}, api.NewError(api.Unauthorized, "not logged in", "")
	}
	digest, ok := d.unseal(cookie.Value)
	if !ok {
		return nil, session{}, api.NewError(api.Unauthorized, "the session is over", "")
	}
	ended, err := d.Door.SessionEnded(r.Context(), sha256.Sum256([]byte(cookie.Value)))
	if err == nil && ended {
		err = api.NewError(api.Unauthorized, "the session is over", "")
	}
	if err != nil {
		return nil, session{}, err
	}
	ctx, name, role, err := d.Door.Enter(r.Context(), digest)
	return ctx, session{Name: name, Role: role, Form: d.formOf(cookie.Value)}, err
}

// askLogin redirects a browser to the login page. A request for a part of a page or for a stream gets status 401
// instead.
func (d *Dashboard) askLogin(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") ||
		r.Header.Get("X-Part") != "" {
		http.Error(w, "log in first", http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, "/login?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

// checkForm refuses an action whose form was not made for this session.
func (d *Dashboard) checkForm(r *http.Request) error {
	s, _ := r.Context().Value(sessionKey{}).(session)
	if !hmac.Equal([]byte(r.PostFormValue("form")), []byte(s.Form)) {
		return api.NewError(
			api.Conflict,
			"this form belongs to another session",
			"go back, load the page again, and repeat it",
		)
	}
	return nil
}
