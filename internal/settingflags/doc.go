// Package settingflags makes the flags of the settings table, for groups and nodes, and the lines that show settings.
//
// It owns no state; it reads the table of the package fleet, so a new setting needs no change here. The commands
// `group` and `node` call it. It must never name a single setting.
package settingflags
