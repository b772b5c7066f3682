package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/time/rate"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/admin"
	"miaosha/seckill/captcha"
	"miaosha/seckill/lab/throwaway"
	"miaosha/user"
)

// Refusals of the HTTP layer itself.
var (
	errBadRequest      = errors.New("bad request")
	errNotLoggedIn     = errors.New("not logged in")
	errOtherUser       = errors.New("the page is another user's")
	errForbidden       = errors.New("forbidden")
	errLink            = errors.New("a link that is wrong or has expired")
	errNoPage          = errors.New("no such page")
	errMethod          = errors.New("method not allowed")
	errTooLarge        = errors.New("body too large")
	errMediaType       = errors.New("not application/json")
	errBadKey          = errors.New("a key that is no UUID")
	errNewPassword     = errors.New("the password was made for the account")
	errNoClass         = errors.New("the class does not exist, or it is over")
	errClassFull       = errors.New("the class is full")
	errClassLocked     = errors.New("the teacher lets no new names into the class")
	errClassesFull     = errors.New("too many classes are open")
	errLabBusy         = errors.New("too many jobs wait for the lab")
	errLabOwn          = errors.New("too many jobs of one caller wait for the lab")
	errLabAddress      = errors.New("too many jobs of one address wait for the lab")
	errLabNoRight      = errors.New("the database's role may not create the lab's schema")
	errLabStopped      = errors.New("the run was stopped")
	errLabTooLong      = errors.New("the lab's job took too long")
	errPictureTooLarge = errors.New("picture too large")
	errElsewhere       = errors.New("the demo shopkeeper is not at this machine")
	errBotsBusy        = errors.New("bots are under way")
	errFaultBusy       = errors.New("a fault is under way")
)

// refusal is the answer to an error that the shop expects.
type refusal struct {
	err    error
	status int
	code   string
	zh, en string
	more   map[string]any // other fields
	bodies [2][]byte      // in Chinese and in English, made at the start
}

// refusals maps errors to statuses and codes. The first match counts.
var refusals = []refusal{
	{err: errBadRequest, status: 400, code: "bad_request", zh: "请求有误", en: "The request is malformed"},
	{err: errBadKey, status: 400, code: "bad_request", zh: "请求头 Idempotency-Key 须是一个 UUID",
		en: "The header Idempotency-Key must be a single UUID"},
	{err: order.ErrWrongAmount, status: 400, code: "bad_request", zh: "金额与订单不符",
		en: "The amount does not match the order's price"},
	{err: order.ErrReusedRef, status: 409, code: "wrong_status", zh: "该支付流水号已经登记过",
		en: "This payment reference has already been recorded"},
	{err: errNotLoggedIn, status: 401, code: "not_logged_in", zh: "请先登录", en: "Please log in first"},
	{err: user.ErrNoSession, status: 401, code: "not_logged_in", zh: "请先登录", en: "Please log in first"},
	{err: errOtherUser, status: 409, code: "other_user", zh: "这个浏览器已换了登录账号，刚才的操作没有执行。请刷新页面，用当前账号继续",
		en: "This browser is now logged in to another account, so nothing was done. Reload the page " +
			"to go on with that account"},
	{err: user.ErrWrongPassword, status: 401, code: "wrong_password", zh: "手机号或密码错误",
		en: "Wrong phone number or password"},
	{err: user.ErrWrongCode, status: 403, code: "wrong_code", zh: "短信验证码错误或已过期",
		en: "The code is wrong or has expired"},
	{err: user.ErrPhoneTaken, status: 409, code: "phone_taken", zh: "该手机号已注册",
		en: "This phone number already has an account"},
	{err: user.ErrNoAccount, status: 404, code: "no_account", zh: "该手机号还没有注册",
		en: "This phone number has no account yet"},
	{err: user.ErrStaffPassword, status: 403, code: "forbidden", zh: "员工不能用短信验证码重设密码，请让管理员用 miaosha admin 命令重设",
		en: "Staff cannot reset a password by code; an administrator can, with miaosha admin"},
	{err: user.ErrSMSOff, status: 403, code: "forbidden", zh: "本店不发送短信验证码", en: "This shop sends no text messages"},
	{err: captcha.ErrWrong, status: 403, code: "wrong_captcha", zh: "答案不对，请换一题重答",
		en: "Wrong answer, please solve a new sum"},
	{err: captcha.ErrStale, status: 403, code: "stale_captcha", zh: "你在别的页面换过新题，这一道已失效，请答新题",
		en: "You opened another sum, maybe in another tab, so this one is no longer valid; please solve a new one"},
	{err: seckill.ErrBadAddress, status: 403, code: "bad_path", zh: "抢购地址无效或已过期，请重新领取",
		en: "This purchase address is invalid or has expired; request a new one"},
	{err: user.ErrDisabled, status: 403, code: "disabled", zh: "该账号已被停用，请联系店铺",
		en: "This account is disabled, please contact the shop"},
	{err: errNewPassword, status: 403, code: "new_password", zh: "这个密码是系统生成的，请先改成自己的密码",
		en: "This password was generated for you, please choose your own first"},
	{err: errElsewhere, status: 403, code: "local_only", zh: "演示店主的密码是公开的，这个账号只能在运行本店的机器上使用（http://127.0.0.1）",
		en: "The demo shopkeeper's password is public, so this account works only on the machine that runs the " +
			"shop (http://127.0.0.1)"},
	{err: admin.ErrNoLongerStaff, status: 403, code: "forbidden", zh: "没有权限", en: "Not allowed"},
	{err: errForbidden, status: 403, code: "forbidden", zh: "没有权限", en: "Not allowed"},
	{err: errLink, status: 403, code: "bad_link", zh: "链接无效或已过期，请向店主索取新链接",
		en: "This link is invalid or has expired; ask the shop for a new one"},
	{err: goods.ErrNoItem, status: 404, code: "not_found", zh: "商品不存在", en: "Product not found"},
	{err: admin.ErrNoPlan, status: 404, code: "not_found", zh: "定时操作不存在", en: "Plan not found"},
	{err: admin.ErrNoPicture, status: 404, code: "not_found", zh: "图片不存在", en: "Picture not found"},
	{err: admin.ErrNotPlanned, status: 409, code: "wrong_status", zh: "这项操作已经执行或取消",
		en: "This plan has already been carried out or cancelled"},
	{err: admin.ErrNoDecoder, status: 503, code: "busy", zh: "正在处理另一张图片，请稍后再试",
		en: "Another picture is being processed, please try again shortly"},
	{err: errPictureTooLarge, status: 413, code: "too_large", zh: "图片最大 5 MB", en: "A picture may be at most 5 MB"},
	{err: admin.ErrTooManyPixels, status: 413, code: "too_large",
		zh: "图片最多 2400 万像素；每种颜色 16 位的最多 1200 万，渐进式 JPEG 最多 600 万；每边最多 65535 像素",
		en: "At most 24 megapixels (12 with 16-bit colour, 6 for a progressive JPEG), and at most 65,535 pixels " +
			"on a side"},
	{err: goods.ErrNoSale, status: 404, code: "no_sale", zh: "秒杀不存在", en: "Sale not found"},
	{err: order.ErrNotFound, status: 404, code: "not_found", zh: "内容不存在", en: "Not found"},
	{err: user.ErrNotListed, status: 404, code: "not_found", zh: "这台设备已经退出登录", en: "This session has ended"},
	{err: user.ErrNotFound, status: 404, code: "not_found", zh: "内容不存在", en: "Not found"},
	{err: admin.ErrNoUser, status: 404, code: "not_found", zh: "内容不存在", en: "Not found"},
	{err: errNoPage, status: 404, code: "not_found", zh: "内容不存在", en: "Not found"},
	{err: errNoClass, status: 404, code: "no_class", zh: "课堂码不对，或课堂已经结束",
		en: "No class has this code, or the class is over"},
	{err: errClassFull, status: 409, code: "class_full", zh: "这个课堂的人数已满", en: "This class is full"},
	{err: errClassLocked, status: 409, code: "class_locked", zh: "老师已暂停新人加入，已在课堂里的同学不受影响",
		en: "The teacher has locked the class: no one else can join, and students already in it are not affected"},
	{err: errClassesFull, status: 409, code: "class_full", zh: "开着的课堂太多了，请先结束一个",
		en: "Too many classes are open; close one first"},
	{err: errMethod, status: 405, code: "method_not_allowed", zh: "不支持该请求方法", en: "Method not allowed"},
	{err: goods.ErrPaused, status: 409, code: "paused", zh: "秒杀已暂停，请稍后再来", en: "The sale is paused"},
	{err: order.ErrWrongStatus, status: 409, code: "wrong_status", zh: "订单当前状态不支持该操作",
		en: "Not possible in the order's current status"},
	{err: order.ErrMayRefund, status: 409, code: "wrong_status", zh: "支付机构可能还会退这笔款，现在不能人工退款，请等它明确拒绝",
		en: "The provider may still refund this payment, so it cannot be refunded by hand now. Wait until the " +
			"provider refuses the refund"},
	{err: admin.ErrOwnAccount, status: 409, code: "own_account", zh: "不能操作自己的账号，请由另一位管理员操作",
		en: "You cannot do this to your own account; ask another administrator"},
	{err: order.ErrDeclined, status: 409, code: "declined", zh: "这个订单多次付款未成功，不能再付；可以取消订单，或等它自动取消",
		en: "Too many payments for this order were declined; cancel the order, or wait until it expires"},
	{err: order.ErrRefused, status: 409, code: "declined", zh: "支付机构拒绝了这笔支付，请稍后重试",
		en: "The payment provider refused this payment; please try again later"},
	{err: goods.ErrEnded, status: 410, code: "ended", zh: "秒杀已结束", en: "The sale has ended"},
	{err: goods.ErrSoldOut, status: 410, code: "sold_out", zh: "已售罄", en: "Sold out"},
	{err: errLabNoRight, status: 409, code: "lab_unavailable", zh: "本店的数据库账号无权建立实验用的 schema，实验室不可用",
		en: "The lab is not available: this shop's database role is not allowed to create the lab's schema"},
	{err: throwaway.ErrLate, status: 503, code: "busy", zh: "这台机器太忙，实验没能开始，请稍后再试",
		en: "This machine is too busy to start the run, please try again later"},
	{err: throwaway.ErrNone, status: 409, code: "lab_no_server",
		zh: "这里不能运行程序：每个程序都要在自己单独的 Postgres 里运行，而这台机器没有能用的 Postgres（需要 Linux 和已安装的 Postgres）",
		en: "Programs cannot run here: each needs a Postgres of its own, and this machine has none to start (it " +
			"takes Linux and an installed Postgres)"},
	{err: errLabTooLong, status: 409, code: "too_long", zh: "实验在限定时间内没有做完",
		en: "The run took longer than the lab allows"},
	{err: errLabStopped, status: 409, code: "stopped", zh: "实验已停止", en: "The run was stopped"},
	{err: errTooLarge, status: 413, code: "too_large", zh: "请求内容过大", en: "The request is too large"},
	{err: errMediaType, status: 415, code: "unsupported_media_type", zh: "请使用 application/json",
		en: "Please send application/json"},
	{err: admin.ErrUnsure, status: 504, code: "unsure", zh: "数据库没有确认这次操作，不确定是否成功。请先核对当前内容，不要直接重试",
		en: "The database did not confirm this, so it is not known whether it was done. Check what is there now " +
			"before you try again"},
	{err: seckill.ErrBusy, status: 503, code: "busy", zh: "系统繁忙，请稍后再试", en: "Busy, please try again shortly"},
	{err: goods.ErrLocked, status: 503, code: "busy", zh: "系统繁忙，请稍后再试", en: "Busy, please try again shortly"},
	{err: order.ErrProvider, status: 503, code: "busy", zh: "支付机构暂时没有响应，请稍后再试",
		en: "The payment provider is not responding, please try again shortly"},
	{err: errLabAddress, status: 429, code: "too_many_here",
		zh: fmt.Sprintf("你所在的网络已有 %d 个实验在排队，等其中一个做完再运行", labAddress),
		en: fmt.Sprintf("%d runs from your network are already in the queue; start yours when one of them has finished",
			labAddress)},
	{err: errLabOwn, status: 503, code: "busy", zh: fmt.Sprintf("你已有 %d 个实验在排队，等其中一个做完再运行", labOwn),
		en: fmt.Sprintf("%d of your runs are already in the queue; start another when one has finished", labOwn)},
	{err: errLabBusy, status: 503, code: "busy", zh: "排队的实验太多了，请稍后再试",
		en: "Too many runs are in the queue, please try again later"},
	{err: errBotsBusy, status: 503, code: "busy", zh: "上一批机器人还没有抢完，请稍后再试",
		en: "The last batch of bots is still running, please wait"},
	{err: errFaultBusy, status: 503, code: "busy", zh: "上一个故障还没有结束，请稍后再试",
		en: "The last fault is not over yet, please wait"},
	{err: user.ErrSolveFirst, status: 503, code: "busy", zh: "现在人很多，请先算一道题",
		en:   "The shop is crowded, please solve a sum first",
		more: map[string]any{"captcha": true}},
	{err: user.ErrChanged, status: 503, code: "busy", zh: "账号刚刚有变动，请重新登录",
		en: "The account has just changed, please log in again"},
	{err: user.ErrBusy, status: 503, code: "busy", zh: "系统繁忙，请稍后再试", en: "Busy, please try again shortly"},
}

func init() {
	for i := range refusals {
		f := &refusals[i]
		f.bodies = [2][]byte{refusalBody(f.code, f.zh, f.more), refusalBody(f.code, f.en, f.more)}
	}
}

// retrySoon are two values of Retry-After. A random one is sent, so that refused callers don't all come
// back at once.
var retrySoon = [][]string{{"1"}, {"2"}}

// writeError answers with the refusal of err. For any other error it answers internal with an id, and
// logs the error under that id. The first loop is for speed: a crowd gets these refusals as bytes that
// are ready.
func writeError(w http.ResponseWriter, r *http.Request, err error, log *slog.Logger, faults *rate.Sometimes) {
	for i := range refusals {
		if f := &refusals[i]; err == f.err {
			f.write(w, r)
			return
		}
	}
	var early goods.NotStartedError
	var tooMany seckill.TooManyError
	var tooOften user.TooManyError
	var banned user.BannedError
	var transition goods.TransitionError
	var format admin.FormatError
	var otherwise admin.DoneOtherwiseError
	var searches admin.TooManySearchesError
	switch {
	case errors.As(err, &early):
		refuse(w, r, 403, "not_started", "还没有开始", "Not started yet",
			map[string]any{"starts_in_ms": max(1, early.In.Milliseconds())})
		return
	case errors.As(err, &tooMany):
		refuseTooMany(w, r, tooMany.RetryAfter)
		return
	case errors.As(err, &tooOften):
		refuseTooMany(w, r, tooOften.RetryAfter)
		return
	case errors.As(err, &banned):
		refuseBanned(w, r, banned.RetryAfter)
		return
	case errors.As(err, &transition):
		refuseTransition(w, r, transition)
		return
	case errors.As(err, &format):
		refusePicture(w, r, format)
		return
	case errors.As(err, &otherwise):
		refuseDoneOtherwise(w, r, otherwise)
		return
	case errors.As(err, &searches):
		refuseSearch(w, r, searches.In)
		return
	case r.Context().Err() != nil && errors.Is(err, context.Canceled):
		return // the client has closed the connection
	}
	if wrong := wrongFields(err); len(wrong) > 0 {
		refuseFields(w, r, wrong)
		return
	}
	if f := refusalOf(err); f != nil {
		f.write(w, r)
		return
	}
	if isUnavailable(err) {
		faults.Do(func() { log.Error("a store is unavailable", "path", routePattern(r), "err", err) })
		writeError(w, r, seckill.ErrBusy, log, faults)
		return
	}
	id := uuid.NewString()
	log.Error("internal error", "id", id, "method", r.Method, "path", routePattern(r), "err", err)
	zh, en := internalMsg(id)
	refuse(w, r, 500, "internal", zh, en, map[string]any{"id": id})
}

// refusalOf returns the refusal of err in the table, or nil.
func refusalOf(err error) *refusal {
	for i := range refusals {
		if f := &refusals[i]; errors.Is(err, f.err) {
			return f
		}
	}
	return nil
}

// codeAndMsg returns the code and message of an error that is part of an answer. If it is no refusal,
// that is internal with the id under which the error is logged.
func codeAndMsg(r *http.Request, err error, id string) (code, msg string) {
	code = "internal"
	zh, en := internalMsg(id)
	if f := refusalOf(err); f != nil {
		code, zh, en = f.code, f.zh, f.en
	}
	if chinese(r) {
		return code, zh
	}
	return code, en
}

// partOfAnswer is codeAndMsg for an error of one of many things that a request did. It logs what is no refusal.
func partOfAnswer(r *http.Request, err error, log *slog.Logger) (code, msg string) {
	if refusalOf(err) == nil && isUnavailable(err) {
		err = seckill.ErrBusy
	}
	id := uuid.NewString()
	if refusalOf(err) == nil {
		log.Error("internal error", "id", id, "method", r.Method, "path", routePattern(r), "err", err)
	}
	return codeAndMsg(r, err, id)
}

func internalMsg(id string) (zh, en string) {
	return "系统出错，编号 " + id, "Internal error, reference " + id
}

func (f *refusal) write(w http.ResponseWriter, r *http.Request) {
	if f.status == http.StatusServiceUnavailable || f.status == http.StatusTooManyRequests {
		w.Header()["Retry-After"] = retrySoon[rand.IntN(len(retrySoon))]
	}
	body := f.bodies[1]
	if chinese(r) {
		body = f.bodies[0]
	}
	writeRefusal(w, f.status, body)
}

func refuseTooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	setRetryAfter(w, wait)
	refuse(w, r, 429, "too_many", "请求太频繁，请稍后再试", "Too many requests, please wait a moment", nil)
}

func refuseBanned(w http.ResponseWriter, r *http.Request, left time.Duration) {
	setRetryAfter(w, left)
	refuse(w, r, 429, "banned", "请求过于频繁，暂时不能抢购；已有的订单和排队不受影响",
		"You sent too many requests and cannot buy for a while; your orders and your place in the queue are kept",
		map[string]any{"retry_after_ms": left.Milliseconds()})
}

// refuseSearch names what is still possible, too: no one has to wait for an order's number.
func refuseSearch(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	setRetryAfter(w, wait)
	n, zh, en := int(math.Ceil(wait.Hours())), "小时", "hours"
	if wait <= time.Hour {
		n, zh, en = int(math.Ceil(wait.Minutes())), "分钟", "minutes"
	}
	if n == 1 {
		en = strings.TrimSuffix(en, "s")
	}
	refuse(w, r, 429, "too_many_searches",
		fmt.Sprintf("只读员工 24 小时内最多按手机号或支付流水号查找 %d 次，次数已用完，%d %s后可以再查。按订单号、秒杀编号、用户编号或昵称查找不限次数，也可以请管理员代查。",
			admin.HiddenSearches, n, zh),
		fmt.Sprintf(
			"A viewer can search by phone number or payment reference %d times in 24 hours, and you have used them all. You can search this way again in %d %s. Searches by order number, sale, account number or nickname have no limit, and an administrator can look a number up for you.",
			admin.HiddenSearches, n, en), nil)
}

func refuseHostName(w http.ResponseWriter, r *http.Request, host string) {
	refuse(w, r, 403, "forbidden",
		fmt.Sprintf("本店不以 %s（请求头 Host）这个名称提供服务；可用 --allow-host 添加，或用 --trusted-proxies 指明前面的反向代理", host),
		fmt.Sprintf(
			"This shop does not answer to the name %s (header Host); add it with --allow-host, or name the proxy in front with --trusted-proxies",
			host), nil)
}

func refuseOtherOrigin(w http.ResponseWriter, r *http.Request, origin, host string) {
	refuse(w, r, 403, "forbidden",
		fmt.Sprintf(
			"页面的地址是 %s（请求头 Origin），收到的却是给 %s（请求头 Host）的请求。如果前面有反向代理，请让它传递 Host 和 X-Forwarded-Proto（nginx：proxy_set_header Host $http_host），并设置 --trusted-proxies 或 --allow-host",
			origin, host),
		fmt.Sprintf(
			"The page is at %s (header Origin), but the request is for %s (header Host). A proxy in front must pass on Host and X-Forwarded-Proto (nginx: proxy_set_header Host $http_host); also set --trusted-proxies or --allow-host",
			origin, host), nil)
}

func refuseSite(w http.ResponseWriter, r *http.Request, site string) {
	refuse(w, r, 403, "forbidden", fmt.Sprintf("这个请求来自其他网站的页面（请求头 Sec-Fetch-Site：%s），本店不接受", site),
		fmt.Sprintf(
			"A page of another site sent this request (header Sec-Fetch-Site: %s), which this shop does not accept",
			site), nil)
}

// whyNotZH are the reasons of a goods.TransitionError in Chinese.
var whyNotZH = map[string]string{
	goods.Draft: "它还是草稿", goods.Published: "它已经发布", goods.Paused: "它已暂停", goods.Closed: "它已关闭",
	"ended": "它已结束",
	"open":  "它已经开始，或三秒内就要开始，开始时间不能再改",
	"past":  "结束时间必须在将来；要立即结束，请关闭这场秒杀",
	"soon":  "离开始不到一分钟，或已经开始，价格不能再改",
	"shown": "刚刚改过价格，开始时间至少要在改价一分钟之后",
}

// refuseTransition also names the reason by a word, and the unsold units if they are too few.
func refuseTransition(w http.ResponseWriter, r *http.Request, e goods.TransitionError) {
	zh, more := whyNotZH[e.Reason], map[string]any{"reason": e.Reason}
	if e.Reason == "units" {
		zh = fmt.Sprintf("未售出的只有 %d 件；总数必须在 1 到 2147483647 之间", e.Left)
		more["left"] = e.Left
	}
	refuse(w, r, 409, "wrong_status", "这场秒杀现在不能这样操作："+zh, e.Error(), more)
}

// The parts of a refusal that names another format.
const (
	takesZH = "图片只收 PNG、JPEG 和 WebP，请另存为其中一种再上传"
	takesEN = "Pictures must be PNG, JPEG or WebP; save it as one of these"
	phoneZH = "；iPhone 可在“设置 > 相机 > 格式”选“兼容性最佳”后重拍，或上传这张照片的截图"
	phoneEN = ". On an iPhone, choose Settings > Camera > Formats > Most Compatible and take it again, or " +
		"upload a screenshot of it"
)

// refusePicture answers which format a file has that is not taken as a picture, and what to do.
func refusePicture(w http.ResponseWriter, r *http.Request, e admin.FormatError) {
	var zh, en string
	switch {
	case e.Why == "empty":
		zh, en = "文件是空的，请重新选择", "The file is empty; choose it again"
	case e.Why == "damaged":
		zh, en = "这个 "+e.Format+" 文件不完整或已损坏，请重新保存后再上传", "This "+e.Format+" file is incomplete or damaged; save it again"
	case e.Why == "animated":
		zh, en = "这个 "+e.Format+" 文件是动画，请改用静态图片", "This "+e.Format+" file is animated; use a still picture"
	case e.Why == "cmyk":
		zh, en = "这个 "+e.Format+" 文件用的是印刷颜色（CMYK），请转成 RGB（sRGB）再上传", "This "+e.Format+" file uses print colours "+
			"(CMYK); save it as RGB (sRGB)"
	case e.Why == "parts":
		zh, en = "这个 "+e.Format+" 文件分得太碎（逐行扫描最多 64 遍，数据段最多 10000 个），请重新保存后再上传",
			"This "+e.Format+" file comes in too many pieces (at most 64 scans and 10,000 segments); save it again"
	case e.Format == "":
		zh, en = "认不出这个文件的格式。"+takesZH, "The format of this file is unknown. "+takesEN
	case e.Format == "video":
		zh, en = "这是视频，不是图片。请截取一帧，存为 PNG、JPEG 或 WebP", "This is a video. Save one frame of it as a PNG, a JPEG "+
			"or a WebP"
	case e.Format == "HEIC" || e.Format == "AVIF":
		zh, en = "这个文件的格式是 "+e.Format+"。"+takesZH+phoneZH, "The format of this file is "+e.Format+". "+takesEN+phoneEN
	default:
		zh, en = "这个文件的格式是 "+e.Format+"。"+takesZH, "The format of this file is "+e.Format+". "+takesEN
	}
	refuse(w, r, http.StatusUnsupportedMediaType, "unsupported_media_type", zh, en,
		map[string]any{"format": e.Format, "reason": e.Why})
}

// subjectsZH are the kinds of what the staff acts on, in Chinese.
var subjectsZH = map[string]string{"sale": "秒杀", "goods": "商品", "order": "订单", "payment": "支付", "picture": "图片",
	"user": "用户", "class": "课堂", "live view": "实时看板的链接"}

// refuseDoneOtherwise also names what the first request with the key has done, and to what.
func refuseDoneOtherwise(w http.ResponseWriter, r *http.Request, e admin.DoneOtherwiseError) {
	subject := e.Subject
	for en, zh := range subjectsZH {
		subject = strings.Replace(subject, en, zh, 1)
	}
	refuse(w, r, 409, "done_otherwise", fmt.Sprintf("上一次提交其实已经生效（%s），所以修改后的这一次没有执行。请先核对当前内容，还需要改再提交。", subject),
		fmt.Sprintf(
			"Your first attempt succeeded after all (%s), so this changed one was not carried out. Check what is there now, and submit again only what is still missing.",
			e.Subject),
		map[string]any{"action": e.Action, "subject": e.Subject})
}

func setRetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
}

// refuse writes a refusal with more fields than code and msg.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, zh, en string, more map[string]any) {
	msg := en
	if chinese(r) {
		msg = zh
	}
	writeRefusal(w, status, refusalBody(code, msg, more))
}

func refusalBody(code, msg string, more map[string]any) []byte {
	body := map[string]any{"code": code, "msg": msg}
	maps.Copy(body, more)
	b, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("encode a refusal: %v", err)) // impossible: it has strings and numbers only
	}
	return b
}

func writeRefusal(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = jsonType, noStore
	w.WriteHeader(status)
	w.Write(body)
}

// routePattern returns the pattern of the request's route, for the log. The path itself may hold a
// hidden address.
func routePattern(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil && c.RoutePattern() != "" {
		return c.RoutePattern()
	}
	return "?"
}

// isUnavailable reports whether err is a store that does not answer in time, refuses connections or is
// shutting down.
func isUnavailable(err error) bool {
	var net net.Error
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, user.ErrUnavailable), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &net), errors.As(err, &connect):
		return true
	case errors.As(err, &pg):
		// connection exceptions, shutdown, out of resources, lock and statement timeouts, a primary that is none any
		// more
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57") ||
			strings.HasPrefix(pg.Code, "53") ||
			pg.Code == "55P03" || pg.Code == "25006"
	}
	return pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}
