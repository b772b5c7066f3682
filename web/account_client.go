package web

import "strings"

// clientNames are what a User-Agent has of a browser or of a system, and the word for it. The first match counts: most
// browsers name others, too.
var clientNames = [2][][2]string{
	{{"MicroMessenger", "wechat"}, {"MQQBrowser", "qq"}, {"UCBrowser", "uc"}, {"HuaweiBrowser", "huawei"},
		{"Edg", "edge"}, {"OPR/", "opera"},
		{"Firefox/", "firefox"}, {"FxiOS", "firefox"}, {"Chrome/", "chrome"}, {"CriOS", "chrome"},
		{"Safari/", "safari"}},
	{{"OpenHarmony", "harmonyos"}, {"HarmonyOS", "harmonyos"}, {"Windows", "windows"}, {"iPhone", "iphone"},
		{"iPad", "ipad"}, {"Android", "android"},
		{"Macintosh", "mac"}, {"CrOS", "chromeos"}, {"Linux", "linux"}},
}

// clientOf returns the browser and the system that a User-Agent names, as two words, "other" for one that is not known.
// It keeps nothing else of the text: what a session has of its client is not the client's to choose.
func clientOf(userAgent string) string {
	words := [2]string{"other", "other"}
	for i, names := range clientNames {
		for _, n := range names {
			if strings.Contains(userAgent, n[0]) {
				words[i] = n[1]
				break
			}
		}
	}
	return words[0] + " " + words[1]
}
