package catalog

// Dashboard is a dashboard of Grafana.
type Dashboard struct {
	// UID is the dashboard's in Grafana, and its file's name.
	UID, Title, Description string
	// Namespaces is true where the reader chooses namespaces.
	Namespaces bool
	Rows       []Row
}

// Row is a row of panels, of one height.
type Row struct {
	Title  string
	Height int
	Panels []Panel
}

// Panel is one picture. Width is its share of 24.
type Panel struct {
	Title, Description string
	// Type is Grafana's: stat, timeseries or table.
	Type, Unit string
	Width      int
	Queries    []Query
}

// Query is an expression, and how its series are named.
type Query struct{ Expr, Legend string }

const (
	// inNamespace selects the namespaces that the reader has chosen.
	inNamespace = `{namespace=~"$namespace"}`
	ofOperator  = `job=~"app-operator-controller-manager-metrics-service.*"`
	// ofApps joins the figures of pods with the ReplicaSets of Deployments.
	ofApps = ` * on (namespace, pod) group_left (owner_name) label_replace(kube_pod_owner{namespace=~"$namespace", owner_kind="ReplicaSet"}, ` +
		`"owner_name", "$1", "owner_name", "(.+)-[^-]+")`
)

// Dashboards returns the dashboards of config/components/dashboards.
func Dashboards() []Dashboard { return []Dashboard{applications(), operator()} }

func applications() Dashboard {
	return Dashboard{
		UID: "app-operator-applications", Title: "Applications", Namespaces: true,
		Description: "For teams: how the resources of all kinds of the operator are doing.",
		Rows: []Row{
			{Title: "State", Height: 8, Panels: []Panel{
				{"By state", "How many resources there are, by the reason of their Ready condition.", "timeseries", "short", 12, []Query{
					{"sum by (reason) (app_operator_resources" + inNamespace + ")", "{{reason}}"},
				}},
				{"Stalled", "Resources that a user has to look at, unless the cause ends by itself. docs/status.md has a row for each reason.", "table", "short", 12, []Query{
					{"max by (kind, namespace, name, reason) (app_operator_resource_stalled" + inNamespace + ")", ""},
				}},
			}},
			{Title: "Not ready", Height: 8, Panels: []Panel{
				{"Not ready for", "Resources whose Ready condition is False, or that have none yet, and for how long. Held and BeforeRollout are waits on purpose.", "table", "s", 8, []Query{
					{"time() - max by (kind, namespace, name, reason) (app_operator_resource_not_ready_since_timestamp_seconds" + inNamespace + ")", ""},
				}},
				{"Paused", "Resources with spec.paused: their changes wait, and their objects are not restored.", "table", "short", 8, []Query{
					{"max by (kind, namespace, name) (app_operator_resource_paused" + inNamespace + ")", ""},
				}},
				{"Canaries wait for", "Resources whose canary waits for its promotion, and for how long.", "table", "s", 8, []Query{
					{"time() - max by (kind, namespace, name) (app_operator_resource_canary_since_timestamp_seconds" + inNamespace + ")", ""},
				}},
			}},
			{Title: "Rollouts and pods", Height: 8, Panels: []Panel{
				{"Time until ready", "How long resources of all namespaces that were not ready took to become ready, or to stall: the median and the slowest tenth.", "timeseries", "s", 12, []Query{
					{"histogram_quantile(0.5, sum by (le, result) (rate(app_operator_settle_duration_seconds_bucket[1h])))", "{{result}}, median"},
					{"histogram_quantile(0.9, sum by (le, result) (rate(app_operator_settle_duration_seconds_bucket[1h])))", "{{result}}, slowest tenth"},
				}},
				{"Restarts of containers", "Restarts within an hour, by Deployment.", "timeseries", "short", 12, []Query{
					{"sum by (namespace, owner_name) (increase(kube_pod_container_status_restarts_total" + inNamespace + "[1h])" + ofApps + ") > 0", "{{namespace}}/{{owner_name}}"},
				}},
			}},
			{Title: "Resources", Height: 8, Panels: []Panel{
				{"CPU", "The processors that the pods of each Deployment use; the ten that use most.", "timeseries", "short", 12, []Query{
					{`topk(10, sum by (namespace, owner_name) (sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{namespace=~"$namespace", container!=""}[$__rate_interval]))` + ofApps + "))", "{{namespace}}/{{owner_name}}"},
				}},
				{"Memory", "The memory that the pods of each Deployment use; the ten that use most.", "timeseries", "bytes", 12, []Query{
					{`topk(10, sum by (namespace, owner_name) (sum by (namespace, pod) (container_memory_working_set_bytes{namespace=~"$namespace", container!=""})` + ofApps + "))", "{{namespace}}/{{owner_name}}"},
				}},
			}},
		},
	}
}

func operator() Dashboard {
	return Dashboard{
		UID: "app-operator-operator", Title: "Operator",
		Description: "For the platform: whether app-operator works, how fast, and who is in its way.",
		Rows: []Row{
			{Title: "Manager", Height: 5, Panels: []Panel{
				{"Leader", "How many managers hold the lease: 1 for each installation.", "stat", "short", 4, []Query{
					{`sum(leader_election_master_status{name="app-operator.huolala.cn"})`, ""},
				}},
				{"Version", "The version of each manager, and the newest rendering that it knows.", "table", "short", 8, []Query{
					{"count by (version, commit, rendering) (app_operator_build_info)", ""},
				}},
				{"Certificate", "How long the certificate of the webhooks is valid.", "stat", "s", 4, []Query{
					{"min(app_operator_webhook_certificate_expiry_timestamp_seconds) - time()", ""},
				}},
				{"AppDefaults", "0 while the AppDefaults of a namespace are invalid.", "stat", "short", 4, []Query{
					{"min(app_operator_defaults_valid)", ""},
				}},
				{"Broken watches", "Kinds whose list or watch fails.", "stat", "short", 4, []Query{
					{"sum(app_operator_watch_broken) or vector(0)", ""},
				}},
			}},
			{Title: "Work", Height: 8, Panels: []Panel{
				{"Reconciles", "How many reconciles a second, by result.", "timeseries", "ops", 8, []Query{
					{"sum by (controller, result) (rate(controller_runtime_reconcile_total{" + ofOperator + "}[$__rate_interval]))", "{{controller}} {{result}}"},
				}},
				{"Errors", "The share of reconciles that fail.", "timeseries", "percentunit", 8, []Query{
					{"sum by (controller) (rate(controller_runtime_reconcile_errors_total{" + ofOperator + "}[$__rate_interval])) / " +
						"sum by (controller) (rate(controller_runtime_reconcile_total{" + ofOperator + "}[$__rate_interval]))", "{{controller}}"},
				}},
				{"Time of a reconcile", "How long a reconcile takes: median, and the slowest hundredth.", "timeseries", "s", 8, []Query{
					{"histogram_quantile(0.5, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{" + ofOperator + "}[$__rate_interval])))", "{{controller}} p50"},
					{"histogram_quantile(0.99, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{" + ofOperator + "}[$__rate_interval])))", "{{controller}} p99"},
				}},
			}},
			{Title: "Queue", Height: 8, Panels: []Panel{
				{"Waiting", "How many resources wait for the operator.", "timeseries", "short", 8, []Query{
					{"sum by (controller) (workqueue_depth{" + ofOperator + "})", "{{controller}}"},
				}},
				{"Time in the queue", "How long they wait: median, and the slowest hundredth.", "timeseries", "s", 8, []Query{
					{"histogram_quantile(0.5, sum by (le, controller) (rate(workqueue_queue_duration_seconds_bucket{" + ofOperator + "}[$__rate_interval])))", "{{controller}} p50"},
					{"histogram_quantile(0.99, sum by (le, controller) (rate(workqueue_queue_duration_seconds_bucket{" + ofOperator + "}[$__rate_interval])))", "{{controller}} p99"},
				}},
				{"Outdated", "Resources that have an earlier rendering, meaning of their size, or defaults. They take the present one with their next change; with the rollout type Waves, defaults and sizes also come in a wave.", "timeseries", "short", 8, []Query{
					{"sum by (kind, what) (app_operator_resources_outdated)", "{{kind}} {{what}}"},
				}},
			}},
			writes(), process(),
		},
	}
}

// writes returns the row on the operator's writes and on the answers of its servers.
func writes() Row {
	return Row{Title: "Writes", Height: 8, Panels: []Panel{
		{"Writes of objects", "What the operator creates, configures, repairs and deletes. Flat while nothing changes.", "timeseries", "ops", 8, []Query{
			{"sum by (kind, action) (rate(app_operator_child_writes_total[$__rate_interval]))", "{{kind}} {{action}}"},
		}},
		{"Repairs", "Objects that were restored after another writer had changed them, within an hour.", "timeseries", "short", 8, []Query{
			{"sum by (kind) (increase(app_operator_child_repairs_total[1h]))", "{{kind}}"},
		}},
		{"Admission", "What the webhooks answer, and the requests, connections and events beyond the limits of the manager.", "timeseries", "ops", 8, []Query{
			{"sum by (kind, result) (rate(app_operator_admission_reviews_total[$__rate_interval]))", "{{kind}} {{result}}"},
			{"sum by (server, reason) (rate(app_operator_requests_refused_total[$__rate_interval]))", "refused: {{server}}, {{reason}}"},
			{"sum(rate(app_operator_events_dropped_total[$__rate_interval]))", "events dropped"},
		}},
	}}
}

// process has what the manager costs.
func process() Row {
	return Row{Title: "Process", Height: 8, Panels: []Panel{
		{"Requests to the API server", "By method and code. Idle, there are none but those of the lease.", "timeseries", "ops", 8, []Query{
			{"sum by (method, code) (rate(rest_client_requests_total{" + ofOperator + "}[$__rate_interval]))", "{{method}} {{code}}"},
		}},
		{"Memory", "Of each manager. The limit of the release is 512 MiB.", "timeseries", "bytes", 8, []Query{
			{"process_resident_memory_bytes{" + ofOperator + "}", "{{pod}}"},
		}},
		{"CPU", "The processors that each manager uses.", "timeseries", "short", 8, []Query{
			{"rate(process_cpu_seconds_total{" + ofOperator + "}[$__rate_interval])", "{{pod}}"},
		}},
	}}
}
