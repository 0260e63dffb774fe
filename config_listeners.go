package firn

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/firnlog/firn/internal/config"
)

// plaintext is the only security protocol there is yet.
const plaintext = "PLAINTEXT"

// endpoint is NAME://HOST:PORT.
type endpoint struct {
	name, host string
	port       uint16
}

func (e endpoint) String() string { return e.name + "://" + e.address() }
func (e endpoint) address() string {
	return net.JoinHostPort(e.host, strconv.Itoa(int(e.port)))
}

// parseEndpoint reads NAME://HOST:PORT. Kafka's names of listeners are the same in capitals and small letters.
func parseEndpoint(text string) (endpoint, error) {
	name, address, found := strings.Cut(text, "://")
	host, port, err := net.SplitHostPort(address)
	if !found || name == "" || err != nil {
		return endpoint{}, fmt.Errorf("%q is not NAME://HOST:PORT", text)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return endpoint{}, fmt.Errorf("%q: the port must be between 0 and 65535", text)
	}
	return endpoint{name: strings.ToUpper(name), host: host, port: uint16(number)}, nil
}

// listeners finds the listeners for clients and the address that clients are told of each.
func (r *reader) listeners(cfg *Config) {
	endpoints, ok := r.endpoints("listeners")
	if !ok {
		return
	}
	protocols, err := parseProtocols(r.text("listener.security.protocol.map"))
	if err != nil {
		r.failAt("listener.security.protocol.map", err)
		return
	}
	clients, controllers := r.split(endpoints)
	for _, client := range clients {
		switch protocol := protocols[client.name]; protocol {
		case plaintext:
		case "":
			r.failAt("listeners", fmt.Errorf("listener.security.protocol.map has no security protocol for %s", client.name))
		default:
			r.failAt("listeners", fmt.Errorf("%s is a %s listener: %s", client.name, protocol, noSecurity))
		}
	}
	if len(clients) == 0 {
		r.failAt("listeners", fmt.Errorf("there is no listener for clients: add %s://HOST:PORT", plaintext))
		return
	}
	for _, controller := range controllers {
		r.settings.note("controller listener %s is not opened: a single node has nobody to talk to on it", controller)
	}
	advertised := r.advertised(clients, endpoints)
	for _, client := range clients {
		cfg.Listeners = append(cfg.Listeners, Listener{
			Name: client.name, Address: client.address(), Advertised: advertised[client.name],
		})
		if !loopback(client.host) {
			r.settings.warn("listener %s is open to other machines, and there is no authentication: anybody who reaches "+
				"it may read, write and delete everything", client)
		}
	}
}

// split tells the listeners of clients from those of the controller.
func (r *reader) split(endpoints []endpoint) (clients, controllers []endpoint) {
	names := config.ParseList(strings.ToUpper(r.text("controller.listener.names")))
	for _, e := range endpoints {
		if slices.Contains(names, e.name) {
			controllers = append(controllers, e)
		} else {
			clients = append(clients, e)
		}
	}
	return clients, controllers
}

// advertised finds what clients are told of each listener that is theirs, by its name.
func (r *reader) advertised(clients, listeners []endpoint) map[string]*HostPort {
	const setting = "advertised.listeners"
	found := map[string]*HostPort{}
	endpoints, ok := r.endpoints(setting)
	if !ok {
		return found
	}
	for _, e := range endpoints {
		switch {
		case !slices.ContainsFunc(listeners, func(l endpoint) bool { return l.name == e.name }):
			r.failAt(setting, fmt.Errorf("%s is not among the listeners", e.name))
		case unspecified(e.host):
			r.failAt(setting, fmt.Errorf("%s tells clients to connect to %s, which is no address of one machine: name the "+
				"host as clients reach it, or leave the setting out", e, e.host))
		case !slices.ContainsFunc(clients, func(l endpoint) bool { return l.name == e.name }):
		case e.host == "" || e.port == 0:
			r.failAt(setting, fmt.Errorf("%s needs a host and a port that clients can connect to", e))
		default:
			found[e.name] = &HostPort{Host: e.host, Port: int32(e.port)}
		}
	}
	return found
}

// endpoints reads a list of listeners; a name or a place that is there twice is refused.
func (r *reader) endpoints(setting string) (endpoints []endpoint, ok bool) {
	ok = true
	for _, text := range config.ParseList(r.text(setting)) {
		e, err := parseEndpoint(text)
		if err == nil && slices.ContainsFunc(endpoints, func(other endpoint) bool { return other.name == e.name }) {
			err = fmt.Errorf("%s is there twice", e.name)
		}
		if err != nil {
			r.failAt(setting, err)
			ok = false
			continue
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, ok
}

// parseProtocols reads NAME:PROTOCOL,….
func parseProtocols(text string) (map[string]string, error) {
	protocols := map[string]string{}
	for _, entry := range config.ParseList(text) {
		name, protocol, found := strings.Cut(strings.ToUpper(entry), ":")
		name, protocol = strings.TrimSpace(name), strings.TrimSpace(protocol)
		known := []string{plaintext, "SSL", "SASL_PLAINTEXT", "SASL_SSL"}
		if !found || name == "" || !slices.Contains(known, protocol) {
			return nil, fmt.Errorf("%q is not NAME:PROTOCOL with one of %s", entry, strings.Join(known, ", "))
		}
		protocols[name] = protocol
	}
	return protocols, nil
}
