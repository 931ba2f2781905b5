package workload

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
)

// The pods of an adopted Deployment that keeps its pod template, and the pods of the tutorials' operators, lack the label by which the cache
// finds pods. While such a Deployment is not ready, its pods are read from the API server, for the cause. Any other workload costs no
// request.

const (
	// unlabelledPage is how many pods are read in one request, unlabelledPages the number of requests for one reading. The pods of a page
	// are reduced before the next one is read.
	unlabelledPage, unlabelledPages = 16, 4
	// firstPodInterval is the time between two readings of the pods of a Deployment at first, and lastPodInterval the limit of this time: the
	// interval grows by half of the time for which the Deployment has not been ready.
	firstPodInterval, lastPodInterval = 10 * time.Second, 5 * time.Minute
	// podReadings is the number of readings for a namespace in a second, podReadingsAtOnce the number after a time without any.
	podReadings, podReadingsAtOnce = 1, 20
	// podBudgetIdle is the time without a reading after which a namespace has its whole budget again.
	podBudgetIdle = podReadingsAtOnce / podReadings * time.Second
)

// unlabelledPods are the pods of a Deployment that the cache does not find.
type unlabelledPods struct {
	// pods are the pods with the gravest causes.
	pods []corev1.Pod
	// again is the time until the pods are read again, 0 if they are not read.
	again time.Duration
}

// PodCauses remembers the gravest causes among pods that the cache does not find, three pods for a workload at most, and limits how often
// such pods are read from the API server. NewPodCauses makes a PodCauses.
type PodCauses struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// owners has the readings of the workloads of each owner, by the names of the workloads.
	owners     map[ownerKey]map[string]*podReading
	namespaces map[string]*podBudget
	// swept is when the budgets were last looked through for idle ones.
	swept time.Time
}

// podReading has the causes of one workload, and the times of its readings.
type podReading struct {
	// since is when the Deployment was first read without being ready, zero while it is ready. read is the time of the last reading.
	since, read time.Time
	pods        []corev1.Pod
}

// podBudget is the budget of readings of a namespace. used is the time of the last reading.
type podBudget struct {
	limiter flowcontrol.PassiveRateLimiter
	used    time.Time
}

// NewPodCauses returns an empty memory.
func NewPodCauses(c clock.PassiveClock) *PodCauses {
	return &PodCauses{clock: c, owners: map[ownerKey]map[string]*podReading{}, namespaces: map[string]*podBudget{}}
}

// ForgetOwner drops the causes of the workloads of an owner that is gone.
func (p *PodCauses) ForgetOwner(manager string, owner types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owners, ownerKey{manager, owner})
}

// RetainWorkloads drops the causes of all workloads of an owner but those with the names.
func (p *PodCauses) RetainWorkloads(manager string, owner types.NamespacedName, names sets.Set[string]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := ownerKey{manager, owner}
	for name := range p.owners[of] {
		if !names.Has(name) {
			p.dropWorkload(of.keyOf(name))
		}
	}
}

// beginReading reports whether the pods of a workload that is not ready are to be read now, and counts the reading. A workload that is not
// read is not remembered.
func (p *PodCauses) beginReading(key Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, r := p.clock.Now(), podReading{}
	if known := p.readingOf(key); known != nil {
		if known.since.IsZero() || known.since.After(now) {
			known.since = now
		}
		r = *known
	}
	if now.Before(r.read.Add(r.readInterval())) && !r.read.After(now) || !p.takeBudget(key.Owner.Namespace, now) {
		return false
	}
	if r.since.IsZero() {
		r.since = now
	}
	r.read = now
	of := key.owner()
	if p.owners[of] == nil {
		p.owners[of] = map[string]*podReading{}
	}
	p.owners[of][key.Workload] = &r
	return true
}

// noteCauses remembers the gravest causes among the pods of a workload that were read.
func (p *PodCauses) noteCauses(key Key, pods []corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.readingOf(key); r != nil {
		r.pods = pods
	}
}

// recallCauses returns the causes of a workload that is not ready.
func (p *PodCauses) recallCauses(key Key) unlabelledPods {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.readingOf(key)
	if r == nil {
		return unlabelledPods{again: firstPodInterval}
	}
	again := r.read.Add(r.readInterval()).Sub(p.clock.Now())
	if again <= 0 { // The namespace has used up its budget.
		again = firstPodInterval
	}
	return unlabelledPods{pods: r.pods, again: again}
}

// noteReady drops the causes of a workload that is ready. The time of the last reading stays, so that a workload that is ready by turns is
// not read more often.
func (p *PodCauses) noteReady(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.readingOf(key)
	if r == nil {
		return
	}
	r.since, r.pods = time.Time{}, nil
	if p.clock.Since(r.read) > firstPodInterval {
		p.dropWorkload(key)
	}
}

// readingOf returns the reading of a workload, nil for none. p.mu is held.
func (p *PodCauses) readingOf(key Key) *podReading { return p.owners[key.owner()][key.Workload] }

// takeBudget reports whether a namespace may have one more reading. The budget outlives the workloads of the namespace, which a user can rename
// and create again, until it is whole. p.mu is held.
func (p *PodCauses) takeBudget(namespace string, now time.Time) bool {
	if now.Sub(p.swept).Abs() >= podBudgetIdle {
		p.swept = now
		maps.DeleteFunc(p.namespaces, func(_ string, b *podBudget) bool { return now.Sub(b.used).Abs() >= podBudgetIdle })
	}
	b := p.namespaces[namespace]
	if b == nil {
		b = &podBudget{limiter: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(podReadings, podReadingsAtOnce, p.clock)}
		p.namespaces[namespace] = b
	}
	if !b.limiter.TryAccept() {
		return false
	}
	b.used = now
	return true
}

// dropWorkload forgets a workload, and with the last workload its owner. p.mu is held.
func (p *PodCauses) dropWorkload(key Key) {
	of := key.owner()
	delete(p.owners[of], key.Workload)
	if len(p.owners[of]) == 0 {
		delete(p.owners, of)
	}
}

// readInterval returns the time between two readings.
func (r *podReading) readInterval() time.Duration {
	return min(max(r.read.Sub(r.since)/2, firstPodInterval), lastPodInterval)
}

// lacksPodLabel reports whether the pods of a Deployment of the owner lack the label by which the cache finds pods.
func lacksPodLabel(live *appsv1.Deployment, owner client.Object) bool {
	return metav1.IsControlledBy(live, owner) && !children.IsPartial(live) && lacksManagedBy(live.Spec.Template)
}

// lacksManagedBy reports whether a pod template lacks the operator's label.
func lacksManagedBy(template corev1.PodTemplateSpec) bool {
	return template.Labels[appv1.LabelManagedBy] != appv1.ManagedBy
}

// observeUnlabelled returns the pods of a Deployment that is not ready and whose pods lack the label. A plan, which has no PodCauses, reads
// none. Pods that cannot be read only lack a cause.
func (r *Reconciler) observeUnlabelled(ctx context.Context, in *Input, seen *Observed, live *appsv1.Deployment) unlabelledPods {
	if r.PodCauses == nil || !lacksPodLabel(live, in.Owner) {
		return unlabelledPods{}
	}
	key := in.Key()
	if health.Deployment(live, seen.Pods, seen.At).Ready {
		r.PodCauses.noteReady(key)
		return unlabelledPods{}
	}
	if r.PodCauses.beginReading(key) {
		pods, err := readGravestPods(ctx, r.Live, live)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info(messagePodsUnreadable, "deployment", live.Name, "error", err.Error())
		}
		if err == nil || len(pods) > 0 {
			r.PodCauses.noteCauses(key, pods)
		}
	}
	return r.PodCauses.recallCauses(key)
}

// readGravestPods reads the pods of a Deployment page by page, and returns those with the gravest causes, reduced to what health needs. With
// an error, it returns the pods of the pages before.
func readGravestPods(ctx context.Context, reader client.Reader, live *appsv1.Deployment) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(live.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("read the selector: %w", err)
	}
	var pods []corev1.Pod
	gravest := func() []corev1.Pod { return health.Gravest(live, pods) }
	next := ""
	for range unlabelledPages {
		page := &corev1.PodList{}
		if err := reader.List(ctx, page, client.InNamespace(live.Namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(unlabelledPage), client.Continue(next)); err != nil {
			return gravest(), fmt.Errorf("list pods: %w", err)
		}
		for i := range page.Items {
			if pod := &page.Items[i]; ofDeployment(pod, live.Name) {
				children.TypeOf(pod).Keep(pod, false)
				pods = append(pods, *pod)
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	return gravest(), nil
}

// ofDeployment reports whether the controller of a pod is a ReplicaSet of a Deployment, by the name that the Deployment's controller gives
// to its ReplicaSets.
func ofDeployment(pod *corev1.Pod, deployment string) bool {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	c := metav1.GetControllerOfNoCopy(pod)
	return c != nil && c.Kind == "ReplicaSet" && hash != "" && c.Name == deployment+"-"+hash
}

// withRequeue returns a verdict that is looked at again once the pods are read again, as nothing watches them.
func (u *unlabelledPods) withRequeue(verdict health.Verdict) health.Verdict {
	if u.again > 0 && !verdict.Ready {
		verdict.Again = reconciler.MinRequeue(verdict.Again, u.again)
	}
	return verdict
}
