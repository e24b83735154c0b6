// Package tftp is a read-only TFTP server (RFC 1350) with the options that boot firmware uses: blksize (RFC 2348),
// tsize and timeout (RFC 2349) and windowsize (RFC 7440), negotiated as in RFC 2347.
//
// A request names one file. A transfer sends its content to one client, from a port of its own. A block has blksize
// bytes and a number from 1; the number has 16 bits and rolls over to 0. A window is the run of blocks that is sent
// before an acknowledgement.
//
// It owns the running transfers. The server's wiring gives it Files, which maps a name to content. It must never pass
// a name on before it is cleaned: it refuses a name that leads out of the root.
package tftp
