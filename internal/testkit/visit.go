package testkit

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// TB is the part of a *testing.T or *testing.B that a Visit needs.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Skip(...any)
	Skipf(string, ...any)
	TempDir() string
}

// visitTime bounds the duration of a visit.
const visitTime = 90 * time.Second

// Visit is a browser that opens one site's dashboard for a test. Any failure ends the test.
type Visit struct {
	*Browser
	Base string // URL of the dashboard, without a trailing slash

	t   TB
	ctx context.Context
}

// NewVisit opens a browser for the dashboard at base, inside a Net (nil: in the test's own network). It skips the test
// if there is no browser. A visit ends with its test, or after visitTime; more extends that.
func NewVisit(t TB, inside *Net, base string, more ...time.Duration) *Visit {
	t.Helper()
	long := visitTime
	for _, m := range more {
		long += m
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	t.Cleanup(cancel)
	var b *Browser
	start := func() (err error) {
		b, err = StartBrowser(ctx)
		return err
	}
	enter := func(f func() error) error { return f() }
	if inside != nil {
		enter = inside.Do
	}
	if err := enter(start); err != nil {
		t.Skip("no browser: ", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	v := &Visit{Browser: b, Base: base, t: t, ctx: ctx}
	v.Window(1280, 800, false)
	return v
}

// Context returns a context that ends with the visit.
func (v *Visit) Context() context.Context { return v.ctx }

// Window sets the size of the window in CSS pixels, and whether the system prefers dark pages.
func (v *Visit) Window(width, height int, dark bool) {
	v.t.Helper()
	if err := v.Look(v.ctx, width, height, dark); err != nil {
		v.t.Fatal(err)
	}
}

// Open opens a path of the site.
func (v *Visit) Open(path string) {
	v.t.Helper()
	if err := v.Go(v.ctx, v.Base+path); err != nil {
		v.t.Fatal(err)
	}
}

// Arrived waits for a page load that a script has started.
func (v *Visit) Arrived() {
	v.t.Helper()
	if err := v.Loaded(v.ctx); err != nil {
		v.t.Fatal(err)
	}
}

// Run runs a script in the page and returns its value as text.
func (v *Visit) Run(script string) string {
	v.t.Helper()
	var out any
	if err := v.Eval(v.ctx, script, &out); err != nil {
		v.t.Fatal(err)
	}
	return fmt.Sprint(out)
}

// Until waits until an expression is true in the page.
func (v *Visit) Until(condition string) {
	v.t.Helper()
	err := v.Eval(
		v.ctx,
		`new Promise(done => { const look = () => (`+condition+`) ? done(true) : setTimeout(look, 20); look(); })`,
		nil,
	)
	if err != nil {
		var page any
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the visit's context may have ended
		defer cancel()
		_ = v.Eval(ctx, "document.body.innerText", &page)
		v.t.Fatalf("waited for %s: %v; the page says: %v", condition, err, page)
	}
}

// Login types an operator's token into the login page.
func (v *Visit) Login(token string) {
	v.t.Helper()
	v.Open("/")
	v.Run(
		fmt.Sprintf(
			`document.getElementById("token").value = %q; document.querySelector("button.main").click()`,
			token,
		),
	)
	v.Arrived()
}

//go:embed axe/axe.min.js.gz
var axePacked []byte

// Accessible checks the page with axe-core.
func (v *Visit) Accessible(what string) {
	v.t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(axePacked))
	if err != nil {
		v.t.Fatal(err)
	}
	axe, err := io.ReadAll(z)
	if err != nil {
		v.t.Fatal(err)
	}
	v.Run(string(axe) + `; 0`)
	got := v.Run(
		`axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).then(r =>
		r.violations.map(x => x.id + ": " + x.nodes.slice(0, 3).map(n => n.target + " (" + n.failureSummary.replace(/\s+/g, " ") + ")").join("; ")).join("\n"))`,
	)
	if got != "" {
		v.t.Errorf("%s: axe-core finds\n%s", what, got)
	}
}

// Fits fails the test if the page is wider than its window.
func (v *Visit) Fits(what string) {
	v.t.Helper()
	// innerWidth does not work here: a phone zooms out until everything fits.
	if v.Run(`document.documentElement.scrollWidth <= document.documentElement.clientWidth`) != "true" {
		v.t.Errorf(
			"%s is wider than the window: %s pixels of %s",
			what,
			v.Run(`document.documentElement.scrollWidth`),
			v.Run(`document.documentElement.clientWidth`),
		)
	}
}

// Quiet fails the test if pages had errors, or sent requests to other hosts.
func (v *Visit) Quiet(what string) {
	v.t.Helper()
	for _, p := range v.Problems() {
		v.t.Errorf("%s: %s", what, p)
	}
	for _, r := range v.Requests() {
		if !strings.HasPrefix(r, v.Base+"/") {
			v.t.Errorf("%s: asked for %s", what, r)
		}
	}
}

// Keep saves a picture of the window for the documentation, in the directory that the variable PANDO_PICTURES names, if
// it is set.
func (v *Visit) Keep(name string) {
	v.t.Helper()
	dir := os.Getenv("PANDO_PICTURES")
	if dir == "" {
		return
	}
	png, err := v.Picture(v.ctx)
	if err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		v.t.Fatal(err)
	}
}
