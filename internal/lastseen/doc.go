// Package lastseen remembers when each running node reported last.
//
// It owns that table, in memory only. The package that receives reports writes it; packages that show nodes or wait for
// them read it. It must never record a report whose sender was not authenticated: that bounds its size.
package lastseen
