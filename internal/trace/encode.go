package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Encode returns an event as JSON of at most a number of bytes. If the event is larger, Encode cuts its longest texts,
// always in the same way.
func Encode(e Event, bytes int) ([]byte, error) {
	body, err := json.Marshal(e)
	for most := 1024; err == nil && len(body) > bytes && most > 0; most /= 2 {
		e = clipped(e, most)
		body, err = json.Marshal(e)
	}
	if err == nil && len(body) > bytes { // too many attributes or sources
		e.Attrs, e.Bytes = nil, nil
		body, err = json.Marshal(e)
	}
	if err != nil {
		return nil, fmt.Errorf("encode event %s %s: %w", e.Stage, e.Kind, err)
	}
	return body, nil
}

// clipped returns an event with texts cut to most bytes, and without longer names.
func clipped(e Event, most int) Event {
	e.Message, e.Hint = cut(e.Message, most), cut(e.Hint, most)
	e.Stage = Stage(cut(string(e.Stage), most))
	e.Bytes = maps.Clone(e.Bytes)
	maps.DeleteFunc(e.Bytes, func(source string, _ int64) bool { return len(source) > most })
	attrs := make(map[string]string, len(e.Attrs))
	for k, v := range e.Attrs {
		if len(k) <= most {
			attrs[k] = cut(v, most)
		}
	}
	e.Attrs = attrs
	return e
}

// cut shortens a text to most bytes, and marks that with " ...".
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " ..."
}
