package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/output"
	"pando/internal/trace"
)

// Feed is the stream of all boots' events in the registry.
type Feed interface {
	// Last returns the highest sequence number so far.
	Last() int64
	// Follow calls fn for every event after a sequence number, until fn returns an error or ctx ends.
	Follow(ctx context.Context, after int64, fn func(trace.Event) error) error
}

// Door authenticates operators by their tokens and passwords.
type Door interface {
	// Enter returns name and role of the token or user that a digest stands for, and a context in which the API acts
	// for that caller. The digest is the SHA-256 of a token's secret, or the result of Login. If it is not valid, Enter
	// returns an *api.Error with code Unauthorized.
	Enter(ctx context.Context, digest [sha256.Size]byte) (context.Context, string, fleet.Role, error)
	// Login checks the password of a user. from is the address of the browser.
	Login(ctx context.Context, from, user, password string) (digest [sha256.Size]byte, err error)
	// EndSession makes a session invalid. id is a digest of the session; until is when the session would expire.
	EndSession(ctx context.Context, id [sha256.Size]byte, until time.Time) error
	// SessionEnded reports whether EndSession was called for a session.
	SessionEnded(ctx context.Context, id [sha256.Size]byte) (bool, error)
}

// Config is what a dashboard needs. Every field but Provider, Open and Hosts must be set.
type Config struct {
	API      *api.Client // the site's API, in this process
	Feed     Feed
	Door     Door
	Provider Provider // where people without a password here log in; nil: nowhere
	Secret   []byte   // the key of session MACs; it must be the same after a restart
	Open     bool     // no login: everyone who reaches the port is an operator
	Journals Journals // nil: pages do not follow journals
	// accepted host names, besides addresses and localhost; "*.example" matches one more label
	Hosts []string
	Now   func() time.Time
	Log   *slog.Logger
}

// Dashboard answers browsers.
type Dashboard struct {
	Config
	pages   *template.Template
	assets  assets
	board   *board
	fresh   newBytes
	asked   asked
	streams httpapi.Streams
	mux     *http.ServeMux
}

// New makes a dashboard.
func New(c Config) (*Dashboard, error) {
	d := &Dashboard{Config: c, assets: loadAssets(), mux: http.NewServeMux()}
	d.board = newBoard(c.API, c.Feed, c.Now, c.Log)
	var err error
	if d.pages, err = parsePages(d.assets); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d.routes()
	return d, nil
}

// page returns the view for a request, made from replies of the API.
type page func(r *http.Request) (view, error)

// view is the content of a page.
type view struct {
	template string
	title    string
	live     string // query of the event stream that reports changes; "": the page does not change
	data     any
}

// shown is the data of every template.
type shown struct {
	Title, Section, Live string
	Session              session
	Open                 bool
	Now                  time.Time
	Data                 any
}

// get registers a page for operators. section is the page's entry in the menu.
func (d *Dashboard) get(pattern, section string, p page) {
	d.mux.Handle("GET "+pattern, d.operator(func(w http.ResponseWriter, r *http.Request) {
		v, err := p(r)
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		d.show(w, r, http.StatusOK, section, v)
	}))
}

// post registers an action. After it the browser is sent to the path that do returns.
func (d *Dashboard) post(pattern string, do func(r *http.Request) (to string, err error)) {
	d.mux.Handle("POST "+pattern, d.operator(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if err := d.checkForm(r); err != nil {
			d.refuse(w, r, err)
			return
		}
		to, err := do(r)
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}))
}

// show renders a page and sends it. It renders first, so that an error does not send half a page.
func (d *Dashboard) show(w http.ResponseWriter, r *http.Request, status int, section string, v view) {
	s, _ := r.Context().Value(sessionKey{}).(session)
	var b bytes.Buffer
	err := d.pages.ExecuteTemplate(
		&b,
		v.template,
		shown{Title: v.title, Section: section, Live: v.live, Session: s, Open: d.Open,
			Now: d.Now(), Data: v.data},
	)
	if err != nil {
		d.Log.Error("page cannot be rendered", "page", r.URL.Path, "err", err)
		http.Error(w, "this page could not be made; the server's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// Pages have no invisible or direction-changing characters of their own: such characters come from text of
	// machines.
	_, _ = io.WriteString(w, output.Plain(b.String())) // the browser is gone when this fails
}

// trouble is the content of the error page.
type trouble struct {
	Status        int
	Message, Hint string
	RetryAfter    time.Duration // 0: unknown
}

func troubleOf(err error) trouble {
	var e *api.Error
	if errors.As(err, &e) {
		return trouble{Status: e.Code.Status(), Message: e.Message, Hint: e.Hint, RetryAfter: e.RetryAfter}
	}
	return trouble{Status: http.StatusInternalServerError, Message: err.Error()}
}

// refuse answers with a page that says what went wrong and what to do.
func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
	}
	t := troubleOf(err)
	if t.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(t.RetryAfter.Seconds())))
	}
	if t.Status >= http.StatusInternalServerError {
		d.Log.Error("request of a browser failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	d.show(w, r, t.Status, "", view{template: "error.html", title: "That did not work", data: t})
}
