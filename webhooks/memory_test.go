package webhooks

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"huolala.cn/app-operator/api/v1/bounds"
	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/test/fixture"
)

// maxWaste is how much a review may allocate in all, as a multiple of what the guard counts for it. Lists grow by being copied, so about
// half of all that is allocated is garbage before the review is answered.
const maxWaste = 3

// hostileReview is a review in which one list, of equal items, or one text takes all the space: %s.
type hostileReview struct{ item, review string }

// hostileReviews are of all parts of a review: those that are decoded before the operator sees it, metadata, spec and status.
var hostileReviews = map[string]hostileReview{
	"one annotation":    {"", created(`"annotations":{"a":"%s"}`, "")},
	"annotations":       {`"k%06d":""`, created(`"annotations":{%s}`, "")},
	"managed fields":    {`{}`, created(`"managedFields":[%s]`, "")},
	"owners":            {`{}`, created(`"ownerReferences":[%s]`, "")},
	"finalizers":        {`""`, created(`"finalizers":[%s]`, "")},
	"arguments":         {`""`, created("", `"args":[%s]`)},
	"variables":         {`{}`, created("", `"envs":[%s]`)},
	"volumes":           {`{}`, created("", `"volumes":[%s]`)},
	"lists":             {`[]`, created("", `"podTemplatePatch":{"a":[%s]}`)},
	"numbers":           {`1`, created("", `"podTemplatePatch":{"a":[%s]}`)},
	"unknown field":     {`{}`, created("", `"unknown":[%s]`)},
	"conditions":        {`{}`, updated(`"status":{"conditions":[{"reason":"RolledBack"},%s]}`)},
	"groups":            {`""`, envelope(`"request":{"userInfo":{"groups":[%s]}}`)},
	"extra":             {`""`, envelope(`"request":{"userInfo":{"extra":{"a":[%s]}}}`)},
	"options":           {`{}`, envelope(`"request":{"options":{"a":[%s]}}`)},
	"causes":            {`{}`, envelope(`"response":{"status":{"details":{"causes":[%s]}}}`)},
	"warnings":          {`""`, envelope(`"response":{"warnings":[%s]}`)},
	"audit annotations": {`"k%06d":""`, envelope(`"response":{"auditAnnotations":{%s}}`)},
	"no review":         {`{}`, `[%s]`},
}

func created(meta, spec string) string { return reviewOf("CREATE", objectOf(meta, spec, ""), "null") }

func updated(status string) string {
	return reviewOf("UPDATE", objectOf("", "", ""), objectOf("", "", status))
}

// objectOf returns an App with more in its metadata, in its spec and behind them.
func objectOf(meta, spec, status string) string {
	more := func(part string) string {
		if part == "" {
			return ""
		}
		return "," + part
	}
	return `{"apiVersion":"app.huolala.cn/v1","kind":"App","metadata":{"name":"web","namespace":"ns","uid":"u"` + more(meta) +
		`},"spec":{"image":"nginx","service":{}` + more(spec) + `}` + more(status) + `}`
}

func reviewOf(operation, object, old string) string {
	return envelope(`"request":{"uid":"1","operation":"` + operation + `","namespace":"ns","name":"web","object":` + object + `,"oldObject":` + old + `}`)
}

func envelope(content string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",` + content + `}`
}

// largest returns the largest review of its form that the guard lets in.
func (h hostileReview) largest() []byte {
	limits := &guard.Webhooks
	if h.item == "" {
		return fmt.Appendf(nil, h.review, strings.Repeat("x", int(limits.Body)-len(h.review)))
	}
	one := limits.PerValue*int64(1+strings.Count(h.item, "{")+strings.Count(h.item, "[")) + limits.PerByte*int64(len(h.item)+2)
	items := make([]string, limits.Share()/one*9/10)
	for i := range items {
		items[i] = h.item
		if strings.Contains(h.item, "%") {
			items[i] = fmt.Sprintf(h.item, i)
		}
	}
	return fmt.Appendf(nil, h.review, strings.Join(items, ","))
}

// keptReviews are reviews in which a text that a handler could keep is long, and another one each time: %s.
var keptReviews = map[string]string{
	"namespace":           envelope(`"request":{"uid":"1","operation":"CREATE","namespace":"%s","name":"web","object":` + objectOf("", "", "") + `}`),
	"name":                envelope(`"request":{"uid":"1","operation":"CREATE","namespace":"ns","name":"%s","object":` + objectOf("", "", "") + `}`),
	"uid":                 envelope(`"request":{"uid":"%s","operation":"CREATE","namespace":"ns","object":` + objectOf("", "", "") + `}`),
	"kind":                envelope(`"request":{"uid":"1","kind":{"kind":"%s"},"operation":"CREATE","namespace":"ns","object":` + objectOf("", "", "") + `}`),
	"user":                envelope(`"request":{"uid":"1","userInfo":{"username":"%s"},"operation":"CREATE","namespace":"ns","object":` + objectOf("", "", "") + `}`),
	"object's namespace":  reviewOf("CREATE", objectOf(`"namespace":"%s"`, "", ""), "null"),
	"object's name":       reviewOf("CREATE", objectOf(`"name":"%s"`, "", ""), "null"),
	"object's annotation": reviewOf("CREATE", objectOf(`"annotations":{"a":"%s"}`, "", ""), "null"),
	"size":                reviewOf("CREATE", objectOf("", `"size":"%s"`, ""), "null"),
	"host":                reviewOf("CREATE", objectOf("", `"ports":[{"port":80}],"ingress":{"rules":[{"host":"%s"}]}`, ""), "null"),
	"account":             reviewOf("CREATE", objectOf("", `"serviceAccountName":"%s"`, ""), "null"),
	"mounted volume":      reviewOf("CREATE", objectOf("", `"volumeMounts":[{"name":"%s","mountPath":"/a"}]`, ""), "null"),
	"target port":         reviewOf("CREATE", objectOf("", `"ports":[{"port":80,"targetPort":"%s"}]`, ""), "null"),
	"scraped port":        reviewOf("CREATE", objectOf("", `"podMonitor":{"port":"%s"}`, ""), "null"),
	"armoured container":  reviewOf("CREATE", objectOf("", `"podAnnotations":{"container.apparmor.security.beta.kubernetes.io/%s":"unconfined"}`, ""), "null"),
	"updated resource":    reviewOf("UPDATE", objectOf(`"uid":"%s"`, "", ""), objectOf("", "", "")),
}

// TestReviewsLeaveNothing has reviews of a mebibyte answered, each with another text. Once they are answered, the heap is as it was.
func TestReviewsLeaveNothing(t *testing.T) {
	if fixture.Race {
		t.Skip("the bounds are those of a build without the race detector")
	}
	const reviews, most, long = 6, 1 << 20, bounds.MaxSpec - 4<<10
	// Without a logger, controller-runtime keeps the values of each logger for the one that is set in the end.
	ctrl.SetLogger(logr.Discard())
	paths := &muxServer{mux: http.NewServeMux()}
	newValidators(t, emptyWorld{}, emptyWorld{}).registerKinds(paths)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var is runtime.MemStats
		runtime.ReadMemStats(&is)
		return int64(is.HeapAlloc)
	}
	for name, review := range keptReviews {
		for _, dry := range []string{"", `"dryRun":true,`} {
			before := heap()
			for i := range reviews {
				text := strings.Replace(fmt.Sprintf(review, fmt.Sprintf("%08d", i)+strings.Repeat("x", long)), `"operation"`, dry+`"operation"`, 1)
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate-app-huolala-cn-v1-app", strings.NewReader(text))
				req.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				paths.mux.ServeHTTP(answer, req)
				if answer.Code != http.StatusOK {
					t.Fatalf("%s: %d %.200s", name, answer.Code, answer.Body)
				}
			}
			if after := heap(); after-before > most {
				t.Errorf("%s: %d reviews of 1 MiB leave %d KiB on the heap", name, reviews, (after-before)>>10)
			}
		}
	}
	runtime.KeepAlive(paths)
}

// TestLogOfMalformedRequests checks that a request that is no review leaves no line in the log, and that a review does.
func TestLogOfMalformedRequests(t *testing.T) {
	lines := 0
	base := funcr.New(func(string, string) { lines++ }, funcr.Options{})
	construct := newAdmission(nil).LogConstructor
	construct(base, nil).Error(nil, "unable to decode the request")
	if lines != 0 {
		t.Errorf("%d lines of a malformed request", lines)
	}
	construct(base, &admission.Request{}).Info("reviewed")
	if lines != 1 {
		t.Errorf("%d lines of a review, want 1", lines)
	}
}

// TestReviewMemory handles hostile reviews that are as large as the guard lets them be. None allocates more than a multiple of what the
// guard counts for it, on any path.
func TestReviewMemory(t *testing.T) {
	paths := &muxServer{mux: http.NewServeMux()}
	newValidators(t, emptyWorld{}, emptyWorld{}).registerKinds(paths)
	for name, hostile := range hostileReviews {
		body := hostile.largest()
		cost := guard.Webhooks.Cost(body)
		if share := guard.Webhooks.Share(); cost > share || cost < share/2 {
			t.Errorf("%s: the review costs %d of %d bytes", name, cost, share)
		}
		for _, path := range []string{"/validate-app-huolala-cn-v1-app", "/mutate-app-huolala-cn-v1-cloudmanager", "/mutate-app-huolala-cn-v1-modelbox"} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			paths.mux.ServeHTTP(answer, req)
			runtime.ReadMemStats(&after)
			if answer.Code != http.StatusOK || strings.Contains(answer.Body.String(), "panic") {
				t.Errorf("%s: %s answers %d %s", name, path, answer.Code, answer.Body)
			}
			took := int64(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%s: %s: %.1f MiB of %.1f MiB", name, path, float64(took)/(1<<20), float64(cost)/(1<<20))
			if took > maxWaste*cost {
				t.Errorf("%s: %s takes %d bytes, which is more than %d times the cost of %d", name, path, took, maxWaste, cost)
			}
		}
	}
}
