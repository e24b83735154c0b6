// Package tftp is a read-only TFTP server (RFC 1350) with the options that boot firmware uses: blksize
// (RFC 2348), tsize and timeout (RFC 2349) and windowsize (RFC 7440), negotiated as RFC 2347 says.
//
// It knows names, not directories: what a name stands for is asked of Files, after the name was cleaned. A
// name that tries to climb is refused before anybody is asked, whatever Files would do with it.
//
// The words. A request asks for one name. A transfer is the sending of its content to one peer, from a port
// of its own. A block is numbered from 1 and carries blksize bytes; the number is 16 bits on the wire and
// rolls over to 0. A window is the run of blocks that is sent before an acknowledgement is waited for.
package tftp
