package view

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/internal/message"
)

// Facts are what a person asks of a resource first.
type Facts struct {
	// Wanted is the version of the spec, Image its whole image, Repository the image without the version; they are empty for a kind with
	// several images.
	Wanted     string `json:"wanted,omitempty"`
	Image      string `json:"image,omitempty"`
	Repository string `json:"repository,omitempty"`
	// Serving are the versions whose pods are ready, the latest first.
	Serving []Served `json:"serving,omitempty"`
	Places  []Place  `json:"places,omitempty"`
	// Changed is when the spec was last changed, By the field manager that has changed it.
	Changed *metav1.Time `json:"changed,omitempty"`
	By      string       `json:"by,omitempty"`
	Size    string       `json:"size,omitempty"`
	// Schedule is when a Task runs, nil for any other kind.
	Schedule *Schedule `json:"schedule,omitempty"`
}

// Served is a version with pods that are ready.
type Served struct {
	Part    string `json:"part,omitempty"`
	Version string `json:"version,omitempty"`
	Ready   int    `json:"ready"`
	// Of is how many pods there are or are to be, in words.
	Of string `json:"of"`
}

// FactsOf returns the facts of a resource.
func FactsOf(s *Snapshot) *Facts {
	r := &s.Resource
	f := &Facts{Image: r.Image, Places: PlacesOf(s), Size: s.sizeText(), Schedule: r.Schedule}
	if r.Image != "" {
		f.Wanted = VersionOf(r.Image)
		f.Repository, _ = splitImage(r.Image)
	}
	groups := s.podGroups()
	for i := range groups {
		g := &groups[i]
		if n := countReady(g.pods); n > 0 {
			f.Serving = append(f.Serving, Served{Part: g.part, Version: VersionOf(g.image), Ready: n, Of: message.Count(max(len(g.pods), g.wanted), "pod")})
		}
	}
	by := r.changedBy()
	f.Changed, f.By = by.Time, by.Name
	return cleanView(f)
}

// sizeText returns the named size and the amounts of the main container, such as "medium: cpu 250m–1, memory 512Mi–1Gi"; empty where the pods
// state none or several workloads have several.
func (s *Snapshot) sizeText() string {
	if len(s.Resource.Workloads) > 1 {
		return ""
	}
	name, _, _ := strings.Cut(s.Resource.Size, " ")
	var amounts []string
	for _, containers := range s.mainContainers() {
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, requested := containers[0].Resources.Requests[resource]
			limit, limited := containers[0].Resources.Limits[resource]
			switch {
			case requested && limited && request.Cmp(limit) != 0:
				amounts = append(amounts, string(resource)+" "+request.String()+"–"+limit.String())
			case limited:
				amounts = append(amounts, string(resource)+" "+limit.String())
			case requested:
				amounts = append(amounts, string(resource)+" from "+request.String())
			}
		}
	}
	return strings.Trim(name+": "+strings.Join(amounts, ", "), ": ")
}

// mainContainers returns the containers of the Deployment of the resource, or of its CronJob, the main container first.
func (s *Snapshot) mainContainers() [][]corev1.Container {
	var all [][]corev1.Container
	for _, d := range s.relatedDeployments() {
		if !isCanary(d) {
			all = append(all, d.Spec.Template.Spec.Containers)
		}
	}
	if cron := s.cronJob(); cron != nil {
		all = append(all, cron.Spec.JobTemplate.Spec.Template.Spec.Containers)
	}
	return slices.DeleteFunc(all, func(containers []corev1.Container) bool { return len(containers) == 0 })
}
