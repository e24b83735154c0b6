// Package connlimit limits the connections of a listener: in total, and from one address.
//
// It owns the counts of one listener. The server and the block daemon of a node use it, because any machine on their
// network can connect to them. A connection above a limit is closed at once. It must not hide the socket: net/http
// uses its descriptor and sendfile(2).
package connlimit
