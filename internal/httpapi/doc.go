// Package httpapi is what all HTTP handlers of the server share: handlers that return errors, JSON in and out, errors
// with codes and hints, and the identity of the caller.
//
// It owns no state and knows no routes. The rooms of the server declare their handlers with it, and the server's
// wiring registers them on a Mux. It must never decide what a caller may do.
package httpapi
