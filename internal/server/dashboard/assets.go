package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// asset is a static file of the pages. Its URL changes with its content, so browsers may cache it for ever.
type asset struct {
	body []byte
	kind string
	sum  string
}

type assets map[string]asset

// loadAssets reads the embedded files. It cannot fail in a program that was built.
func loadAssets() assets {
	out := assets{}
	err := fs.WalkDir(staticFiles, "static", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := staticFiles.ReadFile(name)
		sum := sha256.Sum256(body)
		out[path.Base(name)] = asset{body, kindOf(name), hex.EncodeToString(sum[:6])}
		return err
	})
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	// The style sheet contains the font's URL, so the style sheet's own sum depends on the font's.
	css := out["pando.css"]
	css.body = []byte(strings.ReplaceAll(string(css.body), "inter.woff2", "inter.woff2?"+out["inter.woff2"].sum))
	sum := sha256.Sum256(css.body)
	css.sum = hex.EncodeToString(sum[:6])
	out["pando.css"] = css
	return out
}

func kindOf(name string) string {
	if ext := path.Ext(name); ext != ".woff2" {
		return mime.TypeByExtension(ext)
	}
	return "font/woff2"
}

// url returns the URL of a file.
func (a assets) url(name string) string { return "/static/" + name + "?" + a[name].sum }

// ServeHTTP sends a file.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	if r.URL.RawQuery == f.sum {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(f.body) // it fails only if the browser is gone
}

// parsePages parses the templates. Every page is the base template with its own content.
func parsePages(a assets) (*template.Template, error) {
	funcs := pageFuncs()
	funcs["asset"] = a.url
	return template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/*.html")
}
