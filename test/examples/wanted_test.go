package examples

import (
	"regexp"
)

// want is a difference from the originals that is meant.
type want struct {
	// workloads and path are patterns of "<application>/<workload>" and of a field, added is true where the original says nothing.
	workloads, path string
	added           bool
	// reason is why.
	reason string
}

// covers reports whether a difference of a workload is this one.
func (w want) covers(workload string, d difference) bool {
	return (!w.added || d.was == "") && regexp.MustCompile("^("+w.workloads+")$").MatchString(workload) &&
		regexp.MustCompile("^("+w.path+")$").MatchString(d.path)
}

// noResources are workloads for which the originals do not say what they use.
const noResources = `sockshop/(.*-db|rabbitmq)|voting/.*|wordpress/.*|bookinfo/.*`

// wanted are all differences that are meant, each with its reason.
var wanted = []want{
	{`.*`, `deployment\.template\.spec\.topologySpreadConstraints\[.*`, true,
		"The pods of an App are spread over nodes and zones, as far as that is possible."},
	{`.*`, `deployment\.template\.spec\.containers\[.*\]\.readinessProbe\..*`, true,
		"An App without a readiness probe has one: a connection to the first TCP port."},
	{`.*`, `deployment\.template\.spec\.containers\[.*\]\.ports\[.*\]\.name`, true,
		"A container port that the original does not name has the name of the Service's port."},
	{noResources, `deployment\.template\.spec\.containers\[.*\]\.resources\..*`, true,
		"The original does not say what the container uses; size: small does."},
	{`boutique/.*`, `deployment\.template\.spec\.securityContext\.seccompProfile\.type`, true,
		"securityProfile: restricted in place of the fields has the seccomp profile, too."},
	{`boutique/.*|voting/.*|sockshop/(.*-db|rabbitmq)`, `deployment\.template\.spec\.(initC|c)ontainers\[.*\]\.image(PullPolicy)?`, false,
		"The original names an image without a version, or none that can be pulled."},
	{`boutique/loadgenerator`, `deployment\.template\.spec\.initContainers\[frontend-check\]\.command\[.*`, false,
		"The script that waits for the front end is shorter, and waits for as long as it takes."},
}
