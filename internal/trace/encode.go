package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Encode returns an event as JSON of at most so many bytes: of one that is larger the longest texts are cut, the same
// ones each time.
func Encode(e Event, bytes int) ([]byte, error) {
	body, err := json.Marshal(e)
	for most := 1024; err == nil && len(body) > bytes && most > 0; most /= 2 {
		e = clipped(e, most)
		body, err = json.Marshal(e)
	}
	if err == nil && len(body) > bytes { // by their number
		e.Attrs, e.Bytes = nil, nil
		body, err = json.Marshal(e)
	}
	if err != nil {
		return nil, fmt.Errorf("encode event %s %s: %w", e.Stage, e.Kind, err)
	}
	return body, nil
}

// clipped returns an event without texts and names longer than most.
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

// cut ends a text after most bytes, and says so.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " ..."
}
