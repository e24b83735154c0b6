// Package secretfile reads files that only their owner may read, such as keys and passwords.
//
// It owns no state. Packages identity, openid's flags and store/s3 call it. It must never read a file that others than
// root and this user could have read or written.
package secretfile
