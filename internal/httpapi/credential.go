package httpapi

import (
	"net/http"
	"strings"
)

// Credential returns the credential in the Authorization header of a request, "" if its scheme is another one.
func Credential(r *http.Request, scheme string) string {
	got, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(got, scheme) {
		return ""
	}
	return strings.TrimSpace(value)
}
