package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// podGroup is the pods of a workload that run the same version.
type podGroup struct {
	workload, part, image string
	// revision is the number of the ReplicaSet, 0 if it is not known.
	revision int64
	// newest is true for the latest version, canary for the pods of a canary.
	newest, canary bool
	pods           []corev1.Pod
	// wanted is how many pods of the latest version there are to be.
	wanted int
}

// podGroups returns the pods of all workloads by version, the latest version of each first. A Deployment of the resource's name that belongs
// to another owner is left out.
func (s *Snapshot) podGroups() []podGroup {
	var groups []podGroup
	for _, set := range s.statefulSets() {
		groups = append(groups, podGroup{
			workload: set.Name, part: s.Resource.partOf(set.Name), image: mainImage(set.Spec.Template.Spec.Containers), newest: true,
			pods: s.podsOf(set.UID), wanted: int(ptr.Deref(set.Spec.Replicas, 1)),
		})
	}
	for _, d := range s.relatedDeployments() {
		if !controlsObject(s.Resource.ObjectMeta.UID, d) && !s.Resource.scalesDeployment(d.Name) {
			continue
		}
		whole := podGroup{
			workload: d.Name, part: s.Resource.partOf(d.Name), image: mainImage(d.Spec.Template.Spec.Containers), newest: true, canary: isCanary(d),
			wanted: int(ptr.Deref(d.Spec.Replicas, 1)),
		}
		sets := s.replicaSets(d.UID)
		if len(sets) == 0 {
			whole.pods = s.podsOfDeployment(d)
			groups = append(groups, whole)
			continue
		}
		for i, rs := range sets {
			g := whole
			g.newest, g.revision, g.image = i == 0, revisionOf(rs), mainImage(rs.Spec.Template.Spec.Containers)
			g.pods = s.podsOf(rs.UID)
			if !g.newest {
				g.wanted = 0
			}
			if g.newest || len(g.pods) > 0 {
				groups = append(groups, g)
			}
		}
	}
	return groups
}

// CountReplaced returns how many of the ready pods of a workload a rollback to a revision replaces: those of other revisions, up to the number that
// the revision lacks.
func (s *Snapshot) CountReplaced(w *Workload, to *Revision) int {
	others, kept, wanted := 0, 0, 0
	groups := s.podGroups()
	for i := range groups {
		g := &groups[i]
		switch {
		case g.workload != w.Name || g.canary:
			continue
		case g.revision == to.Number:
			kept += countReady(g.pods)
		default:
			others += countReady(g.pods)
		}
		wanted += g.wanted
	}
	return max(0, min(others, wanted-kept))
}

// partOf returns the name of the part that a workload is of, empty for a kind with one workload.
func (r *Resource) partOf(workload string) string {
	for i := range r.Workloads {
		if r.Workloads[i].Name == workload {
			return string(r.Workloads[i].Part)
		}
	}
	return ""
}

// Cell is a pod in a picture of pods.
type Cell struct {
	Mark  Mark   `json:"mark"`
	Title string `json:"title"`
}

// PodRow is the pods of a version.
type PodRow struct {
	// Part is the part of the resource, empty for a kind with one workload.
	Part    string `json:"part,omitempty"`
	Version string `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`
	// Role is "new" and "earlier" during a rollout, and "canary".
	Role     string `json:"role,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	Ready    int    `json:"ready"`
	Failing  int    `json:"failing,omitempty"`
	Starting int    `json:"starting,omitempty"`
	// ToCome is how many pods are still to be created.
	ToCome int    `json:"toCome,omitempty"`
	Cells  []Cell `json:"cells,omitempty"`
}

// maxCells is the number of pods up to which each has a cell.
const maxCells = 300

// The roles of pods.
const (
	roleNew     = "new"
	roleEarlier = "earlier"
	roleCanary  = "canary"
)

// PodRows returns a row of pods for each version that runs.
func PodRows(s *Snapshot) []PodRow {
	var rows []PodRow
	if s.lacksKind(kindsPods) {
		return nil
	}
	groups := s.podGroups()
	for i := range groups {
		g := &groups[i]
		row := PodRow{Part: g.part, Version: VersionOf(g.image), Image: g.image, Revision: g.revision}
		several := slices.ContainsFunc(groups, func(other podGroup) bool { return other.workload == g.workload && other.revision != g.revision })
		switch {
		case g.canary:
			row.Role = roleCanary
		case several && g.newest:
			row.Role = roleNew
		case several:
			row.Role = roleEarlier
		}
		for j := range g.pods {
			row.addPod(&g.pods[j], len(g.pods) <= maxCells)
		}
		row.ToCome = max(0, g.wanted-len(g.pods))
		rows = append(rows, row)
	}
	return cleanView(rows)
}

// addPod counts a pod, and adds its cell.
func (r *PodRow) addPod(pod *corev1.Pod, cell bool) {
	n := podNode(pod)
	switch n.Mark {
	case MarkGood:
		r.Ready++
	case MarkBad:
		r.Failing++
	default:
		r.Starting++
	}
	if cell {
		title := n.Name
		if n.Detail != "" {
			title += " on " + n.Detail
		}
		r.Cells = append(r.Cells, Cell{Mark: n.Mark, Title: title + ": " + n.State})
	}
}

// Missing has an item for each pod that is still to be created, none for a row without cells.
func (r *PodRow) Missing() []struct{} {
	if r.Ready+r.Failing+r.Starting > maxCells {
		return nil
	}
	return make([]struct{}, min(r.ToCome, maxCells))
}

// Label describes the row to a reader who does not see it.
func (r *PodRow) Label() string {
	text := "Version " + r.Version
	if r.Part != "" {
		text = r.Part + ", version " + r.Version
	}
	if r.Role != "" {
		text += ", " + r.Role
	}
	parts := []string{fmt.Sprintf("%d ready", r.Ready)}
	for _, count := range []struct {
		n    int
		word string
	}{{r.Failing, "failing"}, {r.Starting, "starting"}, {r.ToCome, "to come"}} {
		if count.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count.n, count.word))
		}
	}
	return text + ": " + strings.Join(parts, ", ")
}

// PodLine is a pod in a list.
type PodLine struct {
	Node
	Version  string `json:"version,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
	// Containers are the containers of the pod.
	Containers []string `json:"containers,omitempty"`
	// Last is how a container of the pod ended the last time, with its termination message.
	Last string `json:"last,omitempty"`
}

// maxPodLines is how many pods a list has at most.
const maxPodLines = 100

// PodLines returns the pods as a list, pods in trouble first, and the number of pods that are left out.
func PodLines(s *Snapshot) (lines []PodLine, more int) {
	groups := s.podGroups()
	for i := range groups {
		for j := range groups[i].pods {
			pod := &groups[i].pods[j]
			line := PodLine{Node: podNode(pod), Version: VersionOf(groups[i].image)}
			for c := range pod.Spec.Containers {
				line.Containers = append(line.Containers, pod.Spec.Containers[c].Name)
			}
			for c := range pod.Status.ContainerStatuses {
				status := &pod.Status.ContainerStatuses[c]
				line.Restarts += int(status.RestartCount)
				line.Last = cmp.Or(line.Last, lastEnd(status, s.Now))
			}
			lines = append(lines, line)
		}
	}
	slices.SortStableFunc(lines, func(a, b PodLine) int { return cmp.Compare(markRank(a.Mark), markRank(b.Mark)) })
	if more = len(lines) - maxPodLines; more > 0 {
		return cleanView(lines[:maxPodLines]), more
	}
	return cleanView(lines), 0
}

func markRank(m Mark) int { return slices.Index([]Mark{MarkBad, MarkBusy, MarkGood}, m) }

// lastEnd describes how a container ended the last time, empty if it never did.
func lastEnd(status *corev1.ContainerStatus, now time.Time) string {
	ended := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated)
	if ended == nil {
		return ""
	}
	text := fmt.Sprintf("%s: exit code %d", status.Name, ended.ExitCode)
	if ended.Reason != "" && ended.Reason != "Error" {
		text += ", " + ended.Reason
	}
	if !ended.FinishedAt.IsZero() {
		text += ", " + longDuration(now.Sub(ended.FinishedAt.Time)) + " ago"
	}
	if ended.Message != "" {
		text += ": " + ended.Message
	}
	return text
}
