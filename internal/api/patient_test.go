package api

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// TestPatient: a patient client repeats a request after the time in Retry-After, with the same body. An impatient
// client, or one without that header, does not.
func TestPatient(t *testing.T) {
	asked, after := 0, "1"
	var bodies []string
	server, key := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
		if asked++; asked%2 == 1 {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"code":"too_many","message":"too often","hint":"wait"}}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	for _, c := range []struct {
		patient bool
		after   string
		asked   int
		// an hour is longer than its patience
	}{{true, "1", 2}, {false, "1", 1}, {true, "", 1}, {true, "-5", 1}, {true, "3600", 1}} {
		asked, after, bodies = 0, c.after, nil
		client, err := OverTLS(server, FormatToken("secret", key))
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		if c.patient {
			client.Patient(func() { told++ })
		}
		begun := time.Now()
		_, err = client.AdoptNodes(t.Context(), NodeAdopt{Select: "pc001"})
		var e *Error
		if answered := err == nil; asked != c.asked || answered != (c.asked == 2) ||
			!answered && (!errors.As(err, &e) || e.Code != TooMany) {
			t.Errorf("%+v: asked %d times, %v", c, asked, err)
		}
		if c.asked == 2 && (told != 1 || time.Since(begun) < time.Second || bodies[0] == "" || bodies[0] != bodies[1]) {
			t.Errorf("told %d times, after %s, bodies %q", told, time.Since(begun), bodies)
		}
		client.Close()
	}
}
