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

// sessionCookie is the cookie's name; sessionLife how long it is good for.
const (
	sessionCookie = "pando_session"
	sessionLife   = 12 * time.Hour
)

// session is who asks. Form is what every action's form must carry (its cross-site request forgery token).
type session struct {
	Name string // of the token or user; "" where there is no login
	Role fleet.Role
	Form string
}

// Changes reports whether who asks may change something: pages have no forms for others.
func (s session) Changes() bool { return s.Role.May(fleet.Operator) }

// Admin reports whether who asks may see who may do what.
func (s session) Admin() bool { return s.Role.May(fleet.Admin) }

type sessionKey struct{}

// code is a MAC that only this site can make, for one purpose.
func (d *Dashboard) code(purpose string, data []byte) []byte {
	m := hmac.New(sha256.New, d.Secret)
	m.Write([]byte("pando dashboard " + purpose + " v1\x00"))
	m.Write(data)
	return m.Sum(nil)
}

// sessionNonce is how many bytes of a cookie make it another one than the last.
const sessionNonce = 8

// seal makes a cookie's value: digest of the token, end of the session, random bytes, code of all.
func (d *Dashboard) seal(digest [sha256.Size]byte, until time.Time) string {
	b := binary.BigEndian.AppendUint64(digest[:], uint64(until.Unix()))
	b = append(b, make([]byte, sessionNonce)...)
	_, _ = rand.Read(b[len(b)-sessionNonce:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(append(b, d.code("session", b)...))
}

// unseal is the inverse of seal; it does not look whether the token is still valid.
func (d *Dashboard) unseal(value string) (digest [sha256.Size]byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(value)
	const body = sha256.Size + 8 + sessionNonce
	if err != nil || len(raw) != body+sha256.Size || !hmac.Equal(raw[body:], d.code("session", raw[:body])) {
		return digest, false
	}
	until := time.Unix(int64(binary.BigEndian.Uint64(raw[sha256.Size:])), 0)
	return [sha256.Size]byte(raw), d.Now().Before(until)
}

// formOf is the form token of a session.
func (d *Dashboard) formOf(cookie string) string {
	return base64.RawURLEncoding.EncodeToString(d.code("form", []byte(cookie)))
}

// operator lets a request through that has a session. Who has none is asked to log in.
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

// enter finds the session of a request, and its operator.
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

// askLogin sends a browser to the login page. What asks for a part of a page, or for a stream, is told in a status.
func (d *Dashboard) askLogin(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") ||
		r.Header.Get("X-Part") != "" {
		http.Error(w, "log in first", http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, "/login?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

// checkForm refuses an action whose form this session did not get from here.
func (d *Dashboard) checkForm(r *http.Request) error {
	s, _ := r.Context().Value(sessionKey{}).(session)
	if !hmac.Equal([]byte(r.PostFormValue("form")), []byte(s.Form)) {
		return api.NewError(
			api.Conflict,
			"this form is of another session",
			"go back, load the page again, and repeat it",
		)
	}
	return nil
}
