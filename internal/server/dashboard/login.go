package dashboard

import (
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"pando/internal/api"
)

// loginView is what the login page shows.
type loginView struct {
	To       string // where the browser wanted to go
	Failure  string
	Provider string // host of the OpenID provider; "": there is none
	Away     string // where a login there begins
}

func (d *Dashboard) showLogin(w http.ResponseWriter, r *http.Request) {
	d.showLoginPage(w, r, http.StatusOK, loginView{To: local(r.URL.Query().Get("to"))})
}

// login takes a user's name and password, or an operator's token, and gives a session.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	to := local(r.PostFormValue("to"))
	digest, err := d.credential(r)
	if err != nil {
		var refused *api.Error
		failure, status := err.Error(), http.StatusUnauthorized
		if errors.As(err, &refused) && refused.Code == api.TooMany {
			failure, status = refused.Message+": "+refused.Hint, refused.Status
		}
		d.showLoginPage(w, r, status, loginView{To: to, Failure: failure})
		return
	}
	d.setCookie(w, r, d.seal(digest, d.Now().Add(sessionLife)), int(sessionLife.Seconds()))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// credential is what a session will stand for: a user whose password is right, or a token that is valid.
func (d *Dashboard) credential(r *http.Request) (digest [sha256.Size]byte, err error) {
	if user := r.PostFormValue("user"); user != "" {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		return d.Door.Login(r.Context(), from, user, r.PostFormValue("password"))
	}
	if digest, err = tokenDigest(r.PostFormValue("token")); err != nil {
		return digest, err
	}
	if _, _, _, err = d.Door.Enter(r.Context(), digest); api.IsCode(err, api.Unauthorized) {
		err = errors.New("this token is not valid here: it may have been deleted, be over, or be of another server")
	}
	return digest, err
}

func (d *Dashboard) logout(w http.ResponseWriter, r *http.Request) {
	if err := d.checkForm(r); err != nil {
		d.refuse(w, r, err)
		return
	}
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		end := d.Now().Add(sessionLife)
		if err := d.Door.EndSession(r.Context(), sha256.Sum256([]byte(cookie.Value)), end); err != nil {
			d.refuse(w, r, err)
			return
		}
	}
	d.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (d *Dashboard) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(
		w,
		&http.Cookie{Name: sessionCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil,
			SameSite: http.SameSiteStrictMode},
	)
}

// tokenDigest is the digest under which the server knows the secret of a token.
func tokenDigest(token string) (digest [sha256.Size]byte, err error) {
	secret, _, err := api.ParseToken(token)
	if err != nil {
		return digest, errors.New("that is no token: " + err.Error())
	}
	return sha256.Sum256([]byte(secret)), nil
}

// local is a place on this site, "/" for everything else: nobody is sent elsewhere from the login page.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") ||
		strings.ContainsAny(to, "\\\r\n") {
		return "/"
	}
	return u.RequestURI()
}
