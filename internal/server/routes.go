package server

import "net/http"

// dataRoutes is the data path.
func (s *Server) dataRoutes() http.Handler {
	m := newMux(s.log)
	return m
}

// controlRoutes is the control channel: nodes by their token or session, operators by their token.
func (s *Server) controlRoutes() http.Handler {
	m := newMux(s.log)
	s.operatorRoutes(m, s.operatorOnly)
	return m
}

// socketRoutes is the operator's API for whoever may open the socket.
func (s *Server) socketRoutes() http.Handler {
	m := newMux(s.log)
	s.operatorRoutes(m, func(h handler) handler { return h })
	return m
}
