package server

// operatorRoutes registers the operator's API. auth is put around every route: nothing on the socket, the check of a
// token on the control channel.
func (s *Server) operatorRoutes(m *mux, auth func(handler) handler) {}
