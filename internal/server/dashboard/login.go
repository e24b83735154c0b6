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

// loginView is the content of the login page.
type loginView struct {
	To       string // the path to go to after the login
	Failure  string
	Provider string // host of the OpenID provider; "": none
	Away     string // path where a login at the provider starts
}

func (d *Dashboard) showLogin(w http.ResponseWriter, r *http.Request) {
	d.showLoginPage(w, r, http.StatusOK, loginView{To: local(r.URL.Query().Get("to"))})
}

// login checks a user's name and password, or an operator's token, and starts a session.
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

// credential returns the digest that a session stands for: of a user whose password is right, or of a valid token.
func (d *Dashboard) credential(r *http.Request) (digest [sha256.Size]byte, err error) {
	if user := r.PostFormValue("user"); user != "" {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		return d.Door.Login(r.Context(), from, user, r.PostFormValue("password"))
	}
	if digest, err = tokenDigest(r.PostFormValue("token")); err != nil {
		return digest, err
	}
	if _, _, _, err = d.Door.Enter(r.Context(), digest); api.IsCode(err, api.Unauthorized) {
		err = errors.New("this token is not valid here: it was deleted, has expired, or is for another server")
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

// tokenDigest returns the digest by which the server knows a token's secret.
func tokenDigest(token string) (digest [sha256.Size]byte, err error) {
	secret, _, err := api.ParseToken(token)
	if err != nil {
		return digest, errors.New("that is no token: " + err.Error())
	}
	return sha256.Sum256([]byte(secret)), nil
}

// local returns a path on this site, or "/" for anything else, so that the login page redirects to no other site.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") ||
		strings.ContainsAny(to, "\\\r\n") {
		return "/"
	}
	return u.RequestURI()
}
