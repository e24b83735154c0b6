package dashboard

import (
	"compress/gzip"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// policy is the content security policy: files of this site only, and no inline scripts or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Handler returns the dashboard with all protections.
func (d *Dashboard) Handler() http.Handler {
	// Cross-origin requests are refused, in addition to the tokens in forms.
	return headers(ownName(d.Hosts, http.NewCrossOriginProtection().Handler(compress(d.mux))))
}

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		if r.TLS != nil { // browsers use only TLS from now on
			h.Set("Strict-Transport-Security", "max-age=2592000")
		}
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// ownName refuses requests for other host names (DNS rebinding): a page of another site could let its own name point to
// 127.0.0.1 and so count as the same site. IP addresses cannot be abused that way.
func ownName(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" && !isOne(host, hosts) {
			http.Error(
				w,
				"this is not "+host+"; ask for localhost, an address, or a name of the certificate, with the port",
				http.StatusMisdirectedRequest,
			)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOne reports whether a name matches one of names, where "*." stands for one label.
func isOne(host string, names []string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return slices.ContainsFunc(names, func(n string) bool {
		return strings.EqualFold(n, host) || parent != "" && strings.EqualFold(n, "*."+parent)
	})
}

// compress sends pages gzipped: the map of ten thousand nodes is a megabyte of HTML. Event streams are not compressed,
// because each would hold a compressor of 1.2 MB while it is open.
func compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		z := &zipped{ResponseWriter: w}
		defer z.close()
		next.ServeHTTP(z, r)
	})
}

// zipped compresses the response if its status and content type are worth it.
type zipped struct {
	http.ResponseWriter
	gz    *gzip.Writer
	begun bool
}

// WriteHeader decides whether to compress: not for fonts, and not for responses without a body.
func (z *zipped) WriteHeader(status int) {
	if z.begun {
		return
	}
	z.begun = true
	h := z.Header()
	kind := h.Get("Content-Type")
	if status == http.StatusOK || status >= http.StatusBadRequest {
		if strings.HasPrefix(kind, "text/") && kind != "text/event-stream" || kind == "application/json" {
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			z.gz, _ = gzip.NewWriterLevel(z.ResponseWriter, gzip.BestSpeed) // the level is a valid one
		}
	}
	z.ResponseWriter.WriteHeader(status)
}

// Write compresses b.
func (z *zipped) Write(b []byte) (int, error) {
	if !z.begun {
		if z.Header().Get("Content-Type") == "" {
			z.Header().Set("Content-Type", http.DetectContentType(b))
		}
		z.WriteHeader(http.StatusOK)
	}
	if z.gz != nil {
		return z.gz.Write(b)
	}
	return z.ResponseWriter.Write(b)
}

// FlushError sends what was written so far.
func (z *zipped) FlushError() error {
	if z.gz != nil {
		if err := z.gz.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(z.ResponseWriter).Flush()
}

func (z *zipped) close() {
	if z.gz != nil {
		_ = z.gz.Close() // the browser is gone when this fails
	}
}
