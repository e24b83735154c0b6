package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// placeFlags are those whose values are files and directories, with commas.
var placeFlags = []string{"dir", "data", "reads", "tree"}

// commandLine is a command as it can be given again in a checkout: what lies in this one is named from its top, and
// the directory is named where it was not.
func commandLine(name string, args []string, dir string) string {
	var out []string
	placed := false
	for i := 0; i < len(args); i++ {
		flag, value, whole := strings.Cut(args[i], "=")
		if !slices.Contains(placeFlags, strings.TrimLeft(flag, "-")) || !whole && i+1 == len(args) {
			out = append(out, args[i])
			continue
		}
		if !whole {
			i++
			value = args[i]
		}
		out = append(out, flag, inCheckout(strings.Split(value, ",")...))
		placed = placed || strings.TrimLeft(flag, "-") == "dir"
	}
	if !placed {
		out = append([]string{"--dir", inCheckout(dir)}, out...)
	}
	return strings.Join(append([]string{"pando-lab", name}, out...), " ")
}

// inCheckout names files from the top of the checkout, with commas. One that lies elsewhere has its whole name.
func inCheckout(files ...string) string {
	top := checkout()
	var out []string
	for _, file := range files {
		if whole, err := filepath.Abs(file); err == nil {
			file = whole
		}
		if from, err := filepath.Rel(top, file); err == nil && filepath.IsLocal(from) {
			file = from
		}
		out = append(out, file)
	}
	return strings.Join(out, ",")
}

// checkout is the top of the one that this program was started in; where it was not, the directory that it was
// started in.
func checkout() string {
	began, err := os.Getwd()
	for dir := began; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return began
}
