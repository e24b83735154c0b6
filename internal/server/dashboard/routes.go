package dashboard

// routes registers every route of the dashboard.
func (d *Dashboard) routes() {
	d.mux.Handle("GET /static/{name}", d.assets)
	d.mux.HandleFunc("GET /login", d.showLogin)
	d.mux.HandleFunc("POST /login", d.login)
	if d.Provider != nil {
		d.mux.HandleFunc("GET "+attemptPath, d.beginLogin)
		d.mux.HandleFunc("GET "+attemptBack, d.endLogin)
	}
	d.mux.Handle("POST /logout", d.operator(d.logout))
	d.mux.Handle("GET /live", d.operator(d.live))

	d.get("/{$}", "fleet", d.fleetPage)
	d.get("/nodes/{name}", "fleet", d.nodePage)
	d.get("/boots", "boots", d.bootsPage)
	d.get("/boots/{id}", "boots", d.bootPage)
	d.mux.Handle("GET /boots/{id}/trace.json", d.operator(d.bootTrace))
	d.get("/storm", "boots", d.stormPage)
	d.get("/compare", "boots", d.comparePage)
	d.get("/images", "images", d.imagesPage)
	d.get("/rollouts", "rollouts", d.rolloutsPage)
	d.get("/rollouts/{id}", "rollouts", d.rolloutPage)
	d.get("/swarm", "swarm", d.swarmPage)
	d.get("/health", "health", d.healthPage)

	d.get("/audit", "audit", d.auditPage)

	d.post("/nodes/{name}/adopt", d.adopt)
	d.post("/nodes/{name}/group", d.setGroup)
	d.post("/nodes/{name}/version", d.setVersion)
	d.post("/nodes/{name}/power", d.setPower)
	d.post("/rollouts", d.startRollout)
	d.post("/rollouts/{id}/{verb}", d.changeRollout)
	d.get("/", "", d.nothingHere)
}
