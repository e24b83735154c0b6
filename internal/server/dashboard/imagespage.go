package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// imagesView is the content of the images page.
type imagesView struct {
	Images []imageView
}

type imageView struct {
	Name     string
	Versions []versionView
}

// versionView is one version, the nodes and groups that use it, and its boot pack.
type versionView struct {
	api.Version
	Running int      // number of nodes that run it now
	For     []string // groups that boot it
	New     int64    // bytes of its objects that are in no older version
	Part    float64  // New as a share of all its bytes
	Told    bool     // New is known
	First   bool     // there is no older version
	Pack    *api.Pack
	Hits    float64 // share of the bytes read in boots that came from the pack
	Known   bool    // Hits is known from at least one boot
	Traced  int     // number of boots whose reads are known
	Read    int64   // bytes that a boot reads from it
}

// packsShown is how many versions of an image get details of their boot pack: reading the traces takes a moment for
// each.
const packsShown = 4

func (d *Dashboard) imagesPage(r *http.Request) (view, error) {
	ctx := r.Context()
	images, err := d.API.Images(ctx)
	if err != nil {
		return view{}, err
	}
	if err := d.board.look(ctx); err != nil {
		return view{}, err
	}
	running := map[fleet.Digest]int{}
	for _, t := range d.board.since(0).tiles {
		if t.running != "" {
			running[t.running]++
		}
	}
	var v imagesView
	for _, i := range images {
		iv := imageView{Name: i.Name}
		slow, fresh := d.slower(ctx, i.Name), d.fresh.of(ctx, d.API, i)
		for n, x := range i.Versions {
			vv := versionView{Version: x, Running: running[x.Digest]}
			if n < packsShown {
				d.addPack(ctx, i.Name, &vv)
			}
			vv.For = groupsOf(x.InUse)
			vv.Slower, vv.First = slow[x.Digest], n == len(i.Versions)-1
			vv.New, vv.Told = fresh[x.Digest]
			if all := x.StoredSize + x.KernelSize + x.DriversSize; all > 0 {
				vv.Part = min(float64(vv.New)/float64(all), 1)
			}
			iv.Versions = append(iv.Versions, vv)
		}
		v.Images = append(v.Images, iv)
	}
	return view{template: "images.html", title: "Images", live: "tick=1", data: v}, nil
}

// groupsShown is how many groups of a version are named.
const groupsShown = 4

// groupsOf returns the groups among the users of a version.
func groupsOf(inUse []string) []string {
	var out []string
	for _, use := range inUse {
		if g, ok := strings.CutPrefix(use, "group "); ok {
			out = append(out, g)
		}
	}
	if more := len(out) - groupsShown; more > 0 {
		out = append(out[:groupsShown], plural(more, "group")+" more")
	}
	return out
}

// slower returns which versions of an image boot more slowly than those before them. On an error it returns nil, and
// the page is shown without them.
func (d *Dashboard) slower(ctx context.Context, image string) map[fleet.Digest]string {
	i, err := d.API.Image(ctx, image)
	if err != nil {
		return nil
	}
	out := map[fleet.Digest]string{}
	for _, v := range i.Versions {
		out[v.Digest] = v.Slower
	}
	return out
}

// addPack adds details of a version's boot pack. On an error the page is shown without them.
func (d *Dashboard) addPack(ctx context.Context, image string, v *versionView) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	t, err := d.API.ImageTrace(ctx, fleet.Ref(image+"@"+string(v.Digest)))
	if err != nil {
		return
	}
	v.Traced, v.Read = len(t.Boots), t.Read
	if len(t.Packs) > 0 {
		v.Pack = &t.Packs[0]
	}
	var hits, all int64
	for _, b := range t.Boots {
		hits, all = hits+b.Hits, all+b.Hits+b.Misses
	}
	if all > 0 {
		v.Known, v.Hits = true, float64(hits)/float64(all)
	}
}
