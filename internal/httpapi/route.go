package httpapi

// Route is one request that a room of the server answers: its HTTP method, its pattern as in http.ServeMux, and its
// handler. A room lists its routes; the server's wiring adds who may call them.
type Route struct {
	Method, Path string
	Handle       Handler
}

// NewRoute returns a route.
func NewRoute(method, path string, h Handler) Route {
	return Route{Method: method, Path: path, Handle: h}
}
