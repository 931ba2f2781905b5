package view

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/internal/health"
)

// Node is an object in a tree.
type Node struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Revision int64  `json:"revision,omitempty"`
	// Ready is the number of ready pods out of the wanted ones, or of ready containers of a pod, like "2/4".
	Ready string `json:"ready,omitempty"`
	// State is the state of the object in one or a few words; Detail has further information.
	State  string `json:"state,omitempty"`
	Detail string `json:"detail,omitempty"`
	Mark   Mark   `json:"mark,omitempty"`
	// Notes are lines below the object.
	Notes   []string     `json:"notes,omitempty"`
	Created *metav1.Time `json:"created,omitempty"`
	// More is the number of further children that are left out.
	More     int    `json:"more,omitempty"`
	Children []Node `json:"children,omitempty"`
}

// Tree is a resource with all that is below it.
type Tree struct {
	Meta     `json:",inline"`
	Root     Node      `json:"root"`
	NotShown []Missing `json:"notShown,omitempty"`
}

// TreeOptions limit the nodes of a tree.
type TreeOptions struct {
	// AllRevisions shows ReplicaSets that have no pods any more.
	AllRevisions bool
	// Limit is how many pods, and Jobs of a Task, of a sort are shown of each object; 0 for all.
	Limit int
	// Depth is how many levels there are below the resource; 0 for all.
	Depth int
}

// TreeOf returns the tree of a resource.
func TreeOf(s *Snapshot, o TreeOptions) *Tree {
	r := &s.Resource
	row := RowOf(r)
	root := Node{
		Kind: r.Kind, Name: r.ObjectMeta.Name, Ready: row.Ready, State: row.Reason, Detail: r.Image, Mark: row.State.Mark(), Created: row.Created,
	}
	if row.State == StateUnobserved {
		root.Notes = []string{messageUnobserved}
	}
	for _, set := range s.statefulSets() {
		root.Children = append(root.Children, s.statefulSetNode(set, o))
	}
	for _, d := range s.relatedDeployments() {
		root.Children = append(root.Children, s.deploymentNode(d, o))
	}
	root.Children = append(root.Children, s.cronJobNodes(o)...)
	root.Children = append(root.Children, s.jobNodes(o)...)
	root.Children = append(root.Children, s.surroundingNodes()...)
	if o.Depth > 0 {
		pruneTree(&root, o.Depth)
	}
	return cleanView(&Tree{Meta: newMeta("Tree"), Root: root, NotShown: s.Missing})
}

func pruneTree(n *Node, depth int) {
	if depth == 0 {
		n.Children, n.More = nil, 0
	}
	for i := range n.Children {
		pruneTree(&n.Children[i], depth-1)
	}
}

// foreignNote describes the ownership of a Deployment that the resource names and does not control.
func (s *Snapshot) foreignNote(d *appsv1.Deployment) string {
	whose := "not controlled by " + s.Resource.Kind + " " + s.Resource.ObjectMeta.Name
	if ref := metav1.GetControllerOfNoCopy(d); ref != nil {
		whose = "controlled by " + ref.Kind + " " + ref.Name
	}
	if s.Resource.scalesDeployment(d.Name) && s.Resource.mainCondition().Status == metav1.ConditionTrue {
		whose += "; " + s.Resource.Kind + " " + s.Resource.ObjectMeta.Name + " holds its number of pods"
	}
	return whose
}

func (s *Snapshot) deploymentNode(d *appsv1.Deployment, o TreeOptions) Node {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	verdict := health.Deployment(d, s.podsOfDeployment(d), s.Now)
	n := Node{
		Kind: "Deployment", Name: d.Name, Ready: fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, wanted), State: verdict.Reason,
		Mark: markOf(verdict), Detail: fmt.Sprintf("%d of %d updated", d.Status.UpdatedReplicas, wanted), Created: createdAt(d.ObjectMeta),
	}
	switch {
	case !controlsObject(s.Resource.ObjectMeta.UID, d):
		n.Notes = []string{s.foreignNote(d)}
	case isCanary(d):
		n.Notes = []string{messageCanaryNode}
	}
	sets := s.replicaSets(d.UID)
	for i, rs := range sets {
		if ptr.Deref(rs.Spec.Replicas, 1) == 0 && rs.Status.Replicas == 0 && i > 0 && !o.AllRevisions {
			continue
		}
		n.Children = append(n.Children, s.replicaSetNode(rs, i == 0, o))
	}
	if s.lacksKind(kindsReplicaSets) {
		n.Children, n.More = podNodes(s.podsOfDeployment(d), o.Limit)
	}
	return n
}

func (s *Snapshot) replicaSetNode(rs *appsv1.ReplicaSet, newest bool, o TreeOptions) Node {
	wanted := ptr.Deref(rs.Spec.Replicas, 1)
	n := Node{
		Kind: "ReplicaSet", Name: rs.Name, Revision: revisionOf(rs), Ready: fmt.Sprintf("%d/%d", rs.Status.ReadyReplicas, wanted),
		State: "new", Detail: mainImage(rs.Spec.Template.Spec.Containers), Created: createdAt(rs.ObjectMeta),
	}
	if !newest {
		n.State = "old"
		if rs.Status.Replicas > 0 {
			n.State = fmt.Sprintf("old, %d to go", rs.Status.Replicas)
		}
	}
	n.Children, n.More = podNodes(s.podsOf(rs.UID), o.Limit)
	return n
}

func (s *Snapshot) statefulSetNode(set *appsv1.StatefulSet, o TreeOptions) Node {
	wanted := ptr.Deref(set.Spec.Replicas, 1)
	pods := s.podsOf(set.UID)
	verdict := health.StatefulSet(set, pods)
	n := Node{
		Kind: "StatefulSet", Name: set.Name, Ready: fmt.Sprintf("%d/%d", set.Status.ReadyReplicas, wanted), State: verdict.Reason,
		Mark: markOf(verdict), Detail: mainImage(set.Spec.Template.Spec.Containers), Created: createdAt(set.ObjectMeta),
	}
	n.Children, n.More = podNodes(pods, o.Limit)
	for i := range s.Claims {
		claim := &s.Claims[i]
		if !claimOf(set, claim) {
			continue
		}
		size := claim.Status.Capacity[corev1.ResourceStorage]
		detail := ""
		if !size.IsZero() {
			detail = size.String()
		}
		n.Children = append(n.Children, Node{
			Kind: "PersistentVolumeClaim", Name: claim.Name, State: string(claim.Status.Phase), Detail: detail, Created: createdAt(claim.ObjectMeta),
		})
	}
	return n
}

// claimOf reports whether a claim belongs to a StatefulSet, by the claim's name.
func claimOf(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		ordinal, found := strings.CutPrefix(claim.Name, set.Spec.VolumeClaimTemplates[i].Name+"-"+set.Name+"-")
		if found && ordinal != "" && strings.Trim(ordinal, "0123456789") == "" {
			return true
		}
	}
	return false
}

func markOf(v health.Verdict) Mark {
	switch {
	case v.Ready:
		return MarkGood
	case v.Stalled:
		return MarkBad
	}
	return MarkBusy
}

// mainImage returns the image of the first container, which runs the spec's image.
func mainImage(containers []corev1.Container) string {
	if len(containers) == 0 {
		return ""
	}
	return containers[0].Image
}

// podCause returns why a pod does not run.
func podCause(pod *corev1.Pod) health.Cause { return health.CauseOf(pod) }

// podNodes returns the nodes of pods, and how many of them are left out, see firstAlike.
func podNodes(pods []corev1.Pod, limit int) (nodes []Node, more int) {
	for i := range pods {
		nodes = append(nodes, podNode(&pods[i]))
	}
	return firstAlike(nodes, limit)
}

// firstAlike returns the nodes, of those in the same state at most limit, and the number of the others. The limit 0 keeps all.
func firstAlike(all []Node, limit int) (nodes []Node, more int) {
	seen := map[string]int{}
	for _, n := range all {
		alike := n.State + "\x00" + strings.Join(n.Notes, "\n")
		if seen[alike]++; limit > 0 && seen[alike] > limit {
			more++
			continue
		}
		nodes = append(nodes, n)
	}
	return nodes, more
}

func podNode(pod *corev1.Pod) Node {
	ready := 0
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Ready {
			ready++
		}
	}
	n := Node{
		Kind: "Pod", Name: pod.Name, Ready: fmt.Sprintf("%d/%d", ready, len(pod.Spec.Containers)), State: string(pod.Status.Phase),
		Detail: pod.Spec.NodeName, Mark: MarkBusy, Created: createdAt(pod.ObjectMeta),
	}
	cause := podCause(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		n.State = "Terminating"
	case cause.Reason != "":
		n.State, n.Mark, n.Notes = cause.Reason, MarkBad, []string{cause.String()}
	case podReady(pod):
		n.Mark = MarkGood
	case pod.Status.Phase == corev1.PodRunning:
		n.State = "Starting"
	case pod.Status.Reason != "":
		n.State = pod.Status.Reason
	}
	return n
}

// surroundingNodes returns the nodes of the Services, the autoscalers and the auxiliary objects.
func (s *Snapshot) surroundingNodes() []Node {
	var nodes []Node
	owner := s.Resource.ObjectMeta.UID
	for i := range s.Services {
		if controlsObject(owner, &s.Services[i]) {
			nodes = append(nodes, serviceNode(&s.Services[i]))
		}
	}
	for i := range s.Autoscalers {
		if hpa := &s.Autoscalers[i]; controlsObject(owner, hpa) || s.isScaledBy(hpa) {
			nodes = append(nodes, autoscalerNode(hpa, controlsObject(owner, hpa)))
		}
	}
	return append(nodes, s.aroundNodes()...)
}

// isScaledBy reports whether an autoscaler targets the resource or one of its Deployments.
func (s *Snapshot) isScaledBy(hpa *autoscalingv2.HorizontalPodAutoscaler) bool {
	target := hpa.Spec.ScaleTargetRef
	if target.Kind == s.Resource.Kind && target.Name == s.Resource.ObjectMeta.Name {
		return true
	}
	for _, d := range s.relatedDeployments() {
		if target.Kind == "Deployment" && target.Name == d.Name {
			return true
		}
	}
	return false
}

func autoscalerNode(hpa *autoscalingv2.HorizontalPodAutoscaler, ours bool) Node {
	n := Node{
		Kind: "HorizontalPodAutoscaler", Name: hpa.Name, Ready: fmt.Sprintf("%d–%d", ptr.Deref(hpa.Spec.MinReplicas, 1), hpa.Spec.MaxReplicas),
		State: fmt.Sprintf("wants %d", hpa.Status.DesiredReplicas), Created: createdAt(hpa.ObjectMeta),
	}
	if hpa.Status.ObservedGeneration == nil && hpa.Status.DesiredReplicas == 0 {
		n.State = "not decided yet"
	}
	if !ours {
		n.Detail = "not ours; it sets the number of pods"
	}
	if standing := health.Autoscaler(hpa); standing.Status == metav1.ConditionFalse {
		n.Mark, n.Notes = MarkBad, []string{standing.Message}
	}
	return n
}

// Text returns the tree as text.
func (t *Tree) Text(s Style, now time.Time) string {
	lines := table{painted: 2}
	lines.addNode(&t.Root, "", "", now)
	return lines.drawText(s) + notShown(s, t.NotShown)
}

// addNode adds an object with the prefix head, and the nodes below it with the prefix body.
func (t *table) addNode(n *Node, head, body string, now time.Time) {
	sign := ""
	if n.Kind == "Pod" {
		sign = n.Mark.Sign() + " "
	}
	label := head + sign + n.Kind + "/" + n.Name
	if n.Revision > 0 {
		label += fmt.Sprintf(" (rev %d)", n.Revision)
	}
	t.addRow(n.Mark, label, n.Ready, n.State, ageOf(n.Created, now), n.Detail)
	t.rows[len(t.rows)-1].body = body + "   " + indent
	for _, note := range n.Notes {
		t.addNote(body+"   └─ ", body+"      ", note)
	}
	for i := range n.Children {
		if i == len(n.Children)-1 && n.More == 0 {
			t.addNode(&n.Children[i], body+"└─ ", body+"   ", now)
		} else {
			t.addNode(&n.Children[i], body+"├─ ", body+"│  ", now)
		}
	}
	if n.More > 0 {
		t.addNote(body+"└─ … ", body, fmt.Sprintf("%d more like these", n.More))
	}
}
