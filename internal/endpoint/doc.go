// Package endpoint makes the URLs at which nodes reach this server.
//
// It owns the port numbers, which the server sets when it listens. Rooms that send nodes a URL call it. It must never
// use text from a client, such as a Host header.
package endpoint
