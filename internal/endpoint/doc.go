// Package endpoint makes the URLs at which nodes reach this server.
//
// It owns the port numbers, which the server fills in when it listens. Rooms that tell nodes where to ask call it.
// It must never use what a client wrote, such as a Host header.
package endpoint
