package server

import (
	_ "embed"
	"net/http"
)

// descriptionPath is where the description of the operator's API is.
const descriptionPath = "/v1/openapi.json"

//go:embed openapi.json
var description []byte

// serveDescription sends the OpenAPI description. It needs no token: it says nothing of this site.
func serveDescription(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(description) // the client is gone when this fails
	return nil
}
