package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// Limits of an entry of the audit log, in bytes.
const (
	auditBody = 4 << 10 // of the request body as it is recorded; a longer one is shortened
	auditRead = 8 << 20 // of a body that is read for shortening; the declaration of 20,000 nodes fits
	auditPath = 1 << 10
	auditText = 512
)

// audited records who requested a change and its outcome, also if it was refused.
func (g *Guard) audited(h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var asked bytes.Buffer
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			r.Body = tee{io.TeeReader(r.Body, &limited{&asked, auditRead + 1}), r.Body}
		}
		a := registry.Audited{
			At:     g.now(),
			Who:    httpapi.CallerName(r),
			From:   httpapi.RemoteHost(r),
			Method: r.Method,
			Path:   cut(r.URL.RequestURI(), auditPath),
			Status: http.StatusOK,
		}
		err := h(w, r)
		if err != nil {
			e := httpapi.ErrorOf(err)
			a.Status, a.Error = e.Status, cut(e.Message, auditText)
		}
		a.Body = withoutSecrets(asked.Bytes())
		// The change is made or refused by now. It is recorded even if the client is gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
		defer cancel()
		if e := g.registry.UpdateReserved(ctx, func(tx *registry.Tx) error { return tx.AppendAudited(a) }); e != nil {
			g.log.Error("audit log cannot be written", "who", a.Who, "method", a.Method, "path", a.Path, "err", e)
		}
		return err
	}
}

// tee is a request body that is copied while the handler reads it.
type tee struct {
	io.Reader
	io.Closer
}

// limited keeps the first `most` bytes that are written to it, and drops the rest.
type limited struct {
	to   *bytes.Buffer
	most int
}

// Write never fails, so that the copy cannot change how the request is handled.
func (l *limited) Write(b []byte) (int, error) {
	l.to.Write(b[:min(len(b), max(0, l.most-l.to.Len()))])
	return len(b), nil
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// secretFields are parts of field names. The values of such fields are not recorded.
var secretFields = []string{"password", "secret", "token", "private", "credential", "passphrase", "value"}

// withoutSecrets returns a JSON body without the values of secret fields, shortened if it is long. If the body is not
// JSON, it returns a note.
func withoutSecrets(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var v any
	if len(body) > auditRead {
		return `"not kept: too long to be shortened"`
	}
	if json.Unmarshal(body, &v) != nil {
		return `"not kept: no JSON"`
	}
	v = blank(v)
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	if len(b) <= auditBody {
		return string(b)
	}
	// The digest shows whether two long bodies were equal. It is computed without the secrets.
	out := map[string]any{"bytes": len(b), "sha256": fmt.Sprintf("%x", sha256.Sum256(b))}
	for most := 64; most >= 1; most /= 2 {
		out["shortened"] = shortened(v, most)
		if b, err := json.Marshal(out); err == nil && len(b) <= auditBody {
			return string(b)
		}
	}
	delete(out, "shortened")
	b, _ = json.Marshal(out) // a number and a string always encode
	return string(b)
}

// shortened returns v with at most `most` elements of each list and most+4 fields of each object. Strings keep at most
// 4*most bytes.
func shortened(v any, most int) any {
	switch v := v.(type) {
	case string:
		return cut(v, 4*most)
	case []any:
		var out []any
		for _, x := range v[:min(len(v), most)] {
			out = append(out, shortened(x, most))
		}
		if more := len(v) - len(out); more > 0 {
			out = append(out, fmt.Sprintf("and %d more", more))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		keys := slices.Sorted(maps.Keys(v))
		for _, k := range keys[:min(len(keys), most+4)] {
			out[cut(k, auditText)] = shortened(v[k], most)
		}
		if more := len(keys) - len(out); more > 0 {
			out["..."] = fmt.Sprintf("and %d more", more)
		}
		return out
	}
	return v
}

func blank(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if secretField(k) {
				v[k] = "***"
			} else {
				v[k] = blank(x)
			}
		}
	case []any:
		for i, x := range v {
			v[i] = blank(x)
		}
	}
	return v
}

func secretField(name string) bool {
	for _, s := range secretFields {
		if strings.Contains(strings.ToLower(name), s) {
			return true
		}
	}
	return false
}

// auditMost is how many entries one answer holds at most.
const auditMost = 1000

func (g *Guard) listAudit(r *http.Request) (any, error) {
	before, err := httpapi.QueryInt(r, "before", 0)
	limit, err2 := httpapi.QueryInt(r, "limit", 100)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	out := api.AuditList{Audit: []api.Audited{}}
	err = g.registry.View(r.Context(), func(tx *registry.Tx) error {
		all, err := tx.Audit(max(0, before), int(min(max(1, limit), auditMost)))
		for _, a := range all {
			out.Audit = append(
				out.Audit,
				api.Audited{Seq: a.Seq, At: a.At, Who: a.Who, From: a.From, Method: a.Method, Path: a.Path,
					Body: json.RawMessage(a.Body), Status: a.Status, Error: a.Error},
			)
		}
		return err
	})
	return out, err
}
