package loaders

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"pando/internal/api"
	"pando/internal/bootloader"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/netboot"
)

// API answers operators' requests about boot loaders.
type API struct {
	set *bootloader.Set
	log *slog.Logger
}

// New returns the API for these builds.
func New(set *bootloader.Set, log *slog.Logger) *API { return &API{set, log} }

// Routes returns the routes.
func (a *API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/loaders", httpapi.JSON(a.list)),
		httpapi.NewRoute("POST", "/v1/loaders", httpapi.JSON(a.importLoader)),
		httpapi.NewRoute("GET", "/v1/loaders/{firmware}", httpapi.JSON(a.show)),
		httpapi.NewRoute("DELETE", "/v1/loaders/{firmware}", httpapi.JSON(a.delete)),
	}
}

func (a *API) list(*http.Request) (any, error) {
	out := api.LoaderList{Loaders: []api.Loader{}}
	for _, l := range a.set.List() {
		out.Loaders = append(out.Loaders, view(l))
	}
	return out, nil
}

func (a *API) show(r *http.Request) (any, error) {
	firmware := r.PathValue("firmware")
	for _, l := range a.set.List() {
		if string(l.Class) == firmware {
			return view(l), nil
		}
	}
	return nil, api.NewError(api.NotFound, "there is no boot loader for "+firmware+" firmware",
		"`pando loader list` shows what there is, `pando loader import` brings another")
}

func view(l bootloader.Loader) api.Loader {
	return api.Loader{
		Firmware: string(l.Class), File: l.Name, From: l.Path, Imported: l.Imported, Version: l.Version,
		Digests: l.Digests, Signed: l.Signed, Size: len(l.Data), SHA256: l.SHA256(),
	}
}

// importLoader answers POST /v1/loaders. Clients put the digest into the query, because the audit log has no such body.
func (a *API) importLoader(r *http.Request) (any, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, netboot.MaxLoader+1))
	if err != nil {
		return nil, fmt.Errorf("boot loader: %w", err)
	}
	given := bootloader.Loader{Data: data}.SHA256()
	want := r.URL.Query().Get("sha256")
	if want != "" && want != given && len(data) <= netboot.MaxLoader {
		return nil, httpapi.BadRequest("the body has the SHA-256 "+given+", not "+want, "send the whole file again")
	}
	l, err := a.set.Import(data)
	if errors.Is(err, netboot.ErrNotLoader) {
		return nil, httpapi.BadRequest(err.Error(),
			"import a build of iPXE: snponly.efi for UEFI, undionly.kpxe for BIOS")
	}
	if err != nil {
		return nil, err
	}
	a.log.Info("boot loader imported", "firmware", l.Class, "version", l.Version, "digests", l.Digests,
		"sha256", l.SHA256(), "by", httpapi.CallerName(r))
	return view(l), nil
}

func (a *API) delete(r *http.Request) (any, error) {
	class := netboot.Class(r.PathValue("firmware"))
	if err := a.set.Delete(class); err != nil {
		return nil, hint.API(err)
	}
	a.log.Info("imported boot loader deleted", "firmware", class, "by", httpapi.CallerName(r))
	return nil, nil
}
