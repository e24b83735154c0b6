// Package loglimit bounds how many warnings of one kind reach a log.
//
// It owns the counts of one log. The server puts it before its log, because what others send causes most warnings. A
// warning that passes says how many of its kind did not. It must never hold back an error.
package loglimit
