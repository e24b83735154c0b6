// Package versions reads image versions for all rooms of the server: manifests with a valid signature of the site, and
// which extensions fit a version.
//
// It owns a cache of verified manifests. Rooms that plan boots, make boot packs or show images call it. It must never
// return a manifest whose signature was not checked, and never read more of the store than manifests.
package versions
