package node

import (
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/testkit/clikit"
)

// TestNodeDiffTexts: the text for each kind of difference that a reboot would make.
func TestNodeDiffTexts(t *testing.T) {
	env, out := clikit.Env()
	for _, d := range []api.NodeDiff{
		{Node: "pc1", Desired: version1}, {Node: "pc2", Running: version1},
		{Node: "pc3", Running: version1, Desired: version1},
		{Node: "pc4", Running: version1, Desired: version2, Changes: true, KernelWas: "6.1.0-48",
			KernelIs: "6.1.0-49", ArgsGone: []string{"quiet"},
			ArgsNew: []string{"nosmt"}, Method: fleet.MethodKexec, MethodWhy: "the kernel or its drivers " +
				"change", Drivers: true, Root: true, RootFetches: 12_300_000, Packages: []api.PackageChange{
				{Name: "d", Was: "1", Is: "1", Files: 1, Change: api.PackageRebuilt},
				{Name: "c", Was: "1", Is: "2", Change: api.PackageChanged},
				{Name: "a", Is: "1", Change: api.PackageAdded}, {Name: "b", Was: "1", Change: api.PackageRemoved},
				{Name: "e", Was: "1", Is: "1", Fetch: 7, Change: api.PackageTogether},
				{Name: "f", Was: "1", Is: "1", Fetch: 7, Change: api.PackageTogether}}},
		{Node: "pc5", Running: version1, Desired: version2, Changes: true, Root: true, Problem: "index page is " +
			"damaged"},
	} {
		printNodeDiff(env, d)
	}
	testkit.Golden(t, *update, "node_diff.txt", out.String())
}

const (
	version1 fleet.Digest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	version2 fleet.Digest = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)
