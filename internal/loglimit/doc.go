// Package loglimit bounds how many warnings of one kind reach a log.
//
// It owns the counts of one log. The server puts it before its log, because messages of other machines cause most
// warnings. A warning that passes tells how many of its kind were dropped. It must never hold back an error.
package loglimit
