package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
)

// Place is an address at which a resource answers.
type Place struct {
	Text string `json:"text"`
	// URL is the address as a link, empty for an address that no browser can open.
	URL string `json:"url,omitempty"`
	// Note are the paths, and the Secret of the certificate.
	Note string `json:"note,omitempty"`
}

// Stop is an object on the way of a request to the pods, or a tier.
type Stop struct {
	Title  string   `json:"title,omitempty"`
	Mark   Mark     `json:"mark,omitempty"`
	Places []Place  `json:"places,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Waits is true for an object that does not exist yet.
	Waits bool `json:"waits,omitempty"`
}

// WayOf returns the way of a request: from the hosts through an Ingress or an HTTPRoute and the Service to the pods, or the tiers in the order in
// which they start. It is empty for a resource without a Service and without tiers.
func WayOf(s *Snapshot) []Stop {
	if len(s.Resource.Tiers) > 0 {
		return cleanView(s.tierStops())
	}
	service := s.ownService()
	if service == nil {
		return nil
	}
	hosts, gates := s.hostsAndStops()
	var stops []Stop
	if len(hosts) > 0 {
		stops = append(stops, Stop{Places: hosts})
	}
	stops = append(stops, gates...)
	return cleanView(append(stops, serviceStop(service), s.podStop()))
}

// PlacesOf returns the addresses at which the resource answers: the hosts first, then the addresses of the Service.
func PlacesOf(s *Snapshot) []Place {
	places, _ := s.hostsAndStops()
	for _, address := range strings.Fields(s.Resource.Endpoint) {
		places = append(places, Place{Text: address})
	}
	for i := range s.Resource.Tiers {
		if tier := &s.Resource.Tiers[i]; tier.Endpoint != "" {
			places = append(places, Place{Text: tier.Endpoint})
		}
	}
	return cleanView(places)
}

// ownService returns the Service of the resource, nil if there is none.
func (s *Snapshot) ownService() *corev1.Service {
	for i := range s.Services {
		if controlsObject(s.Resource.ObjectMeta.UID, &s.Services[i]) {
			return &s.Services[i]
		}
	}
	return nil
}

// hostsAndStops returns the hosts of the Ingress and of the HTTPRoute, and these objects as stops.
func (s *Snapshot) hostsAndStops() (hosts []Place, stops []Stop) {
	for i := range s.Around {
		obj := &s.Around[i]
		if !controlsObject(s.Resource.ObjectMeta.UID, obj) {
			continue
		}
		switch obj.GetKind() {
		case "Ingress":
			var ingress networkingv1.Ingress
			if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &ingress) == nil {
				hosts = append(hosts, ingressHosts(&ingress)...)
				stops = append(stops, ingressStop(&ingress))
			}
		case kindRoute:
			var route gatewayv1.HTTPRoute
			if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &route) == nil {
				hosts = append(hosts, routeHosts(&route)...)
				stops = append(stops, routeStop(&route))
			}
		}
	}
	return hosts, stops
}

// hostname is the name of a host that a browser can open.
var hostname = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// placeOf returns the address of a host. Without the name of one host, the address is no link.
func placeOf(host, path string, encrypted bool, note string) Place {
	p := Place{Text: cmp.Or(host, "*"), Note: note}
	if hostname.MatchString(host) {
		p.URL = "http://" + host + path
		if encrypted {
			p.URL = "https://" + host + path
		}
	}
	return p
}

func ingressHosts(ingress *networkingv1.Ingress) []Place {
	var hosts []Place
	for i := range ingress.Spec.Rules {
		rule := &ingress.Spec.Rules[i]
		at := slices.IndexFunc(ingress.Spec.TLS, func(t networkingv1.IngressTLS) bool { return slices.Contains(t.Hosts, rule.Host) })
		var paths []string
		if rule.HTTP != nil {
			for j := range rule.HTTP.Paths {
				paths = append(paths, cmp.Or(rule.HTTP.Paths[j].Path, "/"))
			}
		}
		certificate := "no TLS"
		if at >= 0 {
			certificate = strings.TrimSpace("TLS " + ingress.Spec.TLS[at].SecretName)
		}
		first := "/"
		if len(paths) > 0 {
			first = paths[0]
		}
		hosts = append(hosts, placeOf(rule.Host, first, at >= 0, strings.Join(append([]string{strings.Join(paths, ", ")}, certificate), " · ")))
	}
	return hosts
}

func ingressStop(ingress *networkingv1.Ingress) Stop {
	stop := Stop{Title: "Ingress", Mark: standingMark(health.Ingress(ingress))}
	if class := ingress.Spec.IngressClassName; class != nil {
		stop.Notes = append(stop.Notes, "class "+*class)
	}
	for _, point := range ingress.Status.LoadBalancer.Ingress {
		stop.Notes = append(stop.Notes, cmp.Or(point.Hostname, point.IP))
	}
	if len(ingress.Status.LoadBalancer.Ingress) == 0 {
		stop.Notes = append(stop.Notes, "no address")
	}
	return stop
}

func routeHosts(route *gatewayv1.HTTPRoute) []Place {
	var hosts []Place
	for _, name := range route.Spec.Hostnames {
		hosts = append(hosts, placeOf(string(name), "/", true, ""))
	}
	return hosts
}

func routeStop(route *gatewayv1.HTTPRoute) Stop {
	standing := health.HTTPRoute(route)
	stop := Stop{Title: kindRoute, Mark: standingMark(standing)}
	for i := range route.Spec.ParentRefs {
		stop.Notes = append(stop.Notes, "of "+string(route.Spec.ParentRefs[i].Name))
	}
	if standing.Status == metav1.ConditionFalse {
		stop.Notes = append(stop.Notes, standing.Reason)
	}
	return stop
}

// standingMark returns the mark of an auxiliary object.
func standingMark(standing health.Standing) Mark {
	switch standing.Status {
	case metav1.ConditionTrue:
		return MarkGood
	case metav1.ConditionFalse:
		return MarkFail
	}
	return ""
}

func serviceStop(service *corev1.Service) Stop {
	stop := Stop{Title: "Service", Mark: MarkGood}
	var ports []string
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		text := fmt.Sprintf(":%d", port.Port)
		if target := port.TargetPort.String(); target != "0" && target != fmt.Sprint(port.Port) {
			text += " → " + target
		}
		if port.NodePort != 0 {
			text += fmt.Sprintf(", node port %d", port.NodePort)
		}
		ports = append(ports, text)
	}
	stop.Notes = append(stop.Notes, strings.Join(ports, "; "))
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return stop
	}
	for _, point := range service.Status.LoadBalancer.Ingress {
		stop.Notes = append(stop.Notes, cmp.Or(point.Hostname, point.IP))
	}
	if len(service.Status.LoadBalancer.Ingress) == 0 {
		stop.Mark, stop.Notes = MarkBusy, append(stop.Notes, "waits for an address")
	}
	return stop
}

// podStop returns the end of the way: the pods that are ready, by version, and what decides their number.
func (s *Snapshot) podStop() Stop {
	ready, wanted := 0, 0
	var versions []string
	groups := s.podGroups()
	for i := range groups {
		g := &groups[i]
		n := countReady(g.pods)
		if ready += n; n > 0 && !slices.Contains(versions, VersionOf(g.image)) {
			versions = append(versions, VersionOf(g.image))
		}
		if !g.canary {
			wanted += g.wanted
		}
	}
	stop := Stop{Title: fmt.Sprintf("%d of %s ready", ready, message.Count(wanted, "pod")), Mark: MarkGood}
	if ready > wanted {
		stop.Title = message.Count(ready, "pod") + " ready"
	}
	switch {
	case ready == 0 && wanted > 0:
		stop.Mark = MarkBad
	case ready < wanted:
		stop.Mark = MarkFail
	}
	if len(versions) > 0 {
		stop.Notes = append(stop.Notes, strings.Join(versions, ", "))
	}
	for i := range s.Autoscalers {
		hpa := &s.Autoscalers[i]
		if !controlsObject(s.Resource.ObjectMeta.UID, hpa) && !s.isScaledBy(hpa) {
			continue
		}
		note := "autoscaled " + autoscalerNode(hpa, true).Ready
		if standing := health.Autoscaler(hpa); standing.Status == metav1.ConditionFalse {
			note += ": " + standing.Reason
		}
		stop.Notes = append(stop.Notes, note)
	}
	return stop
}

// tierStops returns the tiers in the order in which they start. A tier that does not exist yet waits for the tier before it.
func (s *Snapshot) tierStops() []Stop {
	var stops []Stop
	before := ""
	groups := s.podGroups()
	for i := range s.Resource.Tiers {
		tier := &s.Resource.Tiers[i]
		stop := Stop{Title: string(tier.Part)}
		wanted, ready, cause := 0, 0, ""
		found := false
		for j := range groups {
			g := &groups[j]
			if g.part != string(tier.Part) {
				continue
			}
			found = true
			wanted, ready = wanted+g.wanted, ready+countReady(g.pods)
			if g.newest {
				stop.Notes = append(stop.Notes, ShortImage(g.image))
			}
			if worst := health.Worst(g.pods, true); worst.Reason != "" {
				cause = worst.Reason
			}
		}
		switch {
		case !found && before != "":
			stop.Waits, stop.Notes = true, []string{"waits for " + before}
		case !found:
			stop.Waits = true
		case ready >= wanted:
			stop.Mark = MarkGood
		case cause != "":
			stop.Mark = MarkBad
		default:
			stop.Mark = MarkBusy
		}
		if found {
			stop.Notes = append([]string{fmt.Sprintf("%d of %s ready", ready, message.Count(wanted, "pod"))}, stop.Notes...)
		}
		if cause != "" && ready < wanted {
			stop.Notes = append(stop.Notes, cause)
		}
		stops, before = append(stops, stop), string(tier.Part)
	}
	return stops
}
