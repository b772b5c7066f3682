package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/typed"
	"miaosha/user"
)

// Bounds that answers name.
const (
	maxExtension  = 24 * 60 // minutes by which an order is extended at once
	maxLinkHours  = 30 * 24 // for which a link is good
	maxClassTitle = 60      // characters
	labOwn        = 3       // jobs of one caller that wait or work
	labAddress    = 32      // jobs from one address that wait or work: a class behind it, not the whole line
)

// fieldError is a bad request in a field that has a name. The reason is "" if the field has no other form
// than a right one; fieldMsgs has the messages.
type fieldError struct{ field, reason string }

func (e fieldError) Error() string   { return "web: bad field " + e.field }
func (e fieldError) Is(t error) bool { return t == errBadRequest }

func (e fieldError) of() fieldError { return e }

// charError is a fieldError that names a character which has no place in the field.
type charError struct {
	fieldError
	found typed.CharError
}

// wrongField is a fieldError or a charError.
type wrongField interface {
	of() fieldError
	msg(r *http.Request) string
}

// fieldMsgs are what the owner of a wrong field reads, by field and reason, or by the reason alone.
var fieldMsgs = map[fieldError]struct{ zh, en string }{
	{"phone", "form"}: {"请填写 11 位手机号，以 13 至 19 开头",
		"A phone number must have 11 digits and begin with 13 to 19"},
	{"code", "form"}:       {"验证码是 6 位数字", "The code must be 6 digits"},
	{"password", "length"}: passwordLength,
	{"new", "length"}:      passwordLength,
	{"phone", "same"}:      {"这就是当前的手机号", "This is already your phone number"},
	{"new", "same"}:        {"新密码不能和当前密码相同", "The new password must differ from the current one"},
	{"nickname", "length"}: {fmt.Sprintf("昵称最多 %d 个字符", user.NicknameMax),
		fmt.Sprintf("A nickname may have at most %d characters", user.NicknameMax)},
	{"nickname", "form"}:     {"昵称中有不可见的字符，请删去", "The nickname contains invisible characters; remove them"},
	{"nickname", "reserved"}: {"这个昵称像员工的名称，请换一个", "This looks like a staff name; choose another one"},
	{"nickname", "taken"}: {"课堂里已经有这个名字，或看起来一样的名字（例如大写的 I 和小写的 l），请加一个字区分",
		"The class already has this name, or one that looks the same (such as a capital I and a small l); add a letter to tell them apart"},
	{"title", "class"}: {fmt.Sprintf("最多 %d 个字符", maxClassTitle),
		fmt.Sprintf("At most %d characters", maxClassTitle)},
	{"hours", "link"}:      {fmt.Sprintf("1 到 %d 小时", maxLinkHours), fmt.Sprintf("1 to %d hours", maxLinkHours)},
	{"source", "required"}: {"请先写程序", "Write a program first"},
	{"source", fmt.Sprintf("at most %d bytes", program.MaxSource)}: {fmt.Sprintf("程序最多 %d KB", program.MaxSource>>10),
		fmt.Sprintf("A program may be at most %d KB", program.MaxSource>>10)},

	{"title", "length"}:     titleLength,
	{"title_en", "length"}:  titleLength,
	{"detail", "length"}:    detailLength,
	{"detail_en", "length"}: detailLength,
	{"price", "range"}:      priceRange,
	{"price", "whole"}:      priceRange,
	{"list_price", "range"}: priceRange,
	{"list_price", "whole"}: priceRange,
	{"stock", "range"}:      {fmt.Sprintf("件数为 1 到 %d", goods.StockMax), fmt.Sprintf("1 to %d units", goods.StockMax)},
	{"delta", "range"}: {fmt.Sprintf("请填写 -%d 到 %[1]d 的件数，不能为 0，减少用负数", goods.StockMax),
		fmt.Sprintf("A number from -%d to %[1]d, not 0; use a negative number to remove units", goods.StockMax)},
	{"start_at", "range"}:   yearRange,
	{"start_at", "form"}:    yearRange,
	{"end_at", "range"}:     yearRange,
	{"end_at", "form"}:      yearRange,
	{"at", "range"}:         yearRange,
	{"at", "form"}:          yearRange,
	{"q", "form"}:           searchText,
	{"subject", "form"}:     searchText,
	{"from", "form"}:        searchTime,
	{"to", "form"}:          searchTime,
	{"minutes", "range"}:    {fmt.Sprintf("1 到 %d 分钟", maxExtension), fmt.Sprintf("1 to %d minutes", maxExtension)},
	{"end_at", "order"}:     {"结束时间必须晚于开始时间", "The end must be later than the start"},
	{"end_at", "past"}:      {"结束时间必须在将来", "The end must be in the future"},
	{"at", "past"}:          {"时间必须在将来", "The time must be in the future"},
	{"goods_id", "unknown"}: {"商品不存在", "Product not found"},
	{"goods_id", "alone"}:   {"选用已有商品时，不能再填写商品内容", "For an existing product, leave out the fields of a new one"},
	{"image", "unknown"}:    {"图片不存在", "Picture not found"},
	{"name", "length"}: {fmt.Sprintf("收货人最多 %d 个字符", order.AddressNameMax),
		fmt.Sprintf("A name may have at most %d characters", order.AddressNameMax)},
	{"phone", "digits"}: {"请填写手机号，或带区号的座机，如 010-12345678，有分机时写 010-12345678 转 123",
		"A mobile number, or a landline with area code, such as 010-12345678; add an extension like this: 010-12345678 ext. 123"},
	{"ticket", "form"}: {"可以查排队号（epoch:entry:nonce）、订单号（06EX-3K2P-41ZD）或订单编号（UUID）",
		"Enter a ticket (epoch:entry:nonce), an order number (06EX-3K2P-41ZD) or an order ID (UUID)"},
	{"address", "length"}: {fmt.Sprintf("地址最多 %d 个字符", order.AddressMax),
		fmt.Sprintf("An address may have at most %d characters", order.AddressMax)},
	{"carrier", "length"}: {fmt.Sprintf("快递公司最多 %d 个字符", order.ShipmentMax),
		fmt.Sprintf("A carrier may have at most %d characters", order.ShipmentMax)},
	{"reference", "length"}: {"流水号最多 100 个字符", "A reference may have at most 100 characters"},
	{"note", "length"}: {fmt.Sprintf("备注最多 %d 个字符", order.NoteMax),
		fmt.Sprintf("A note may have at most %d characters", order.NoteMax)},
	{"tracking", "length"}: {fmt.Sprintf("运单号最多 %d 个字符", order.ShipmentMax),
		fmt.Sprintf("A tracking number may have at most %d characters", order.ShipmentMax)},

	{"", "required"}: {"这一项必须填写", "Required"},
	{"", "type"}:     {"类型不对", "Wrong type"},
	{"", "whole"}:    {"请填写整数", "Enter a whole number"},
	{"", "unknown"}:  {"字段不存在", "Unknown field"},
	{"", "value"}:    {"不是允许的值", "Not an allowed value"},
	{"", "form"}:     {"格式不对", "Invalid format"},
}

var (
	priceRange = struct{ zh, en string }{
		fmt.Sprintf("价格为 0 到 %d.%d 元，最多两位小数", goods.PriceMax/100, goods.PriceMax%100),
		fmt.Sprintf("A price must be ¥0 to ¥%d.%d, with at most two decimals", goods.PriceMax/100, goods.PriceMax%100)}
	yearRange = struct{ zh, en string }{
		fmt.Sprintf("请填写 %d 年到 %d 年的日期和时间", goods.FirstYear, goods.LastYear),
		fmt.Sprintf("Enter a date and time from %d to %d", goods.FirstYear, goods.LastYear)}
	searchText  = struct{ zh, en string }{"搜索内容里没有看得见的字符，请重新输入", "The search has no visible characters; enter it again"}
	searchTime  = struct{ zh, en string }{"请填写正确的日期和时间，年份为四位数", "Enter a date and time with a four-digit year"}
	titleLength = struct{ zh, en string }{
		fmt.Sprintf("最多 %d 个字符", goods.TitleMax), fmt.Sprintf("At most %d characters", goods.TitleMax)}
	detailLength = struct{ zh, en string }{
		fmt.Sprintf("最多 %d 个字符", goods.DetailMax), fmt.Sprintf("At most %d characters", goods.DetailMax)}
)

var passwordLength = struct{ zh, en string }{
	fmt.Sprintf("密码需要 %d 到 %d 个字符", user.PasswordMin, user.PasswordMax),
	fmt.Sprintf("A password must have %d to %d characters", user.PasswordMin, user.PasswordMax),
}

// goodsFields has the fields that package goods calls as the commands do.
var goodsFields = map[string]string{"start": "start_at", "end": "end_at", "list-price": "list_price",
	"title-en": "title_en", "detail-en": "detail_en",
	"units": "delta", "goods": "goods_id"}

// fieldChars are what a field may contain, for the owner of one that has another character.
var fieldChars = map[fieldError]struct{ zh, en string }{
	{"phone", "form"}: {"手机号只能有数字、空格、短横和开头的 +", "A phone number may contain digits, spaces, dashes and a leading +"},
	{"phone", "digits"}: {"电话只能有数字、空格、短横、括号、开头的 + 和分机（转 123）",
		"A phone number may contain digits, spaces, dashes, brackets, a leading + and an extension (ext. 123)"},
	{"code", "form"}:     {"验证码是 6 位数字", "The code must be 6 digits"},
	{"tracking", "form"}: {"运单号只能有字母、数字、短横和点", "A tracking number may contain letters, digits, dashes and dots"},
	{"captcha", "form"}:  {"答案是一个数，请用数字 0 到 9 填写", "The answer must be a number in the digits 0 to 9"},
	{"", "form"}:         {"这里只能填数字", "Only digits are allowed here"},
}

// wrongFields returns every wrong field that err names. err may join several.
func wrongFields(err error) (wrong []wrongField) {
	one := func(field, reason string) []wrongField { return []wrongField{fieldError{field, reason}} }
	switch e := err.(type) {
	case charError:
		return []wrongField{e}
	case fieldError:
		return one(e.field, cmp.Or(e.reason, "form"))
	case user.InvalidError:
		return one(e.Field, e.Reason)
	case goods.InvalidError:
		return one(cmp.Or(goodsFields[e.Field], e.Field), e.Reason)
	case admin.PlanError:
		return one(e.Field, e.Reason)
	case order.InvalidError:
		return one(e.Field, e.Reason)
	case lab.InvalidError:
		return one(e.Field, e.Reason)
	case interface{ Unwrap() error }:
		return wrongFields(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			wrong = append(wrong, wrongFields(part)...)
		}
	}
	return wrong
}

// msg returns what the field needs. A reason without a message says it itself, as those of the lab do: "1
// to 500".
func (e fieldError) msg(r *http.Request) string {
	texts, ok := fieldMsgs[e]
	if !ok {
		texts, ok = fieldMsgs[fieldError{"", e.reason}]
	}
	switch {
	case !ok && chinese(r):
		return "取值不对：" + e.reason
	case !ok:
		return "Wrong value: " + e.reason
	case chinese(r):
		return texts.zh
	}
	return texts.en
}

// msg says what the field may contain, and which character it has. A character that shows nothing has its code point.
func (e charError) msg(r *http.Request) string {
	may, ok := fieldChars[e.fieldError]
	if !ok {
		may = fieldChars[fieldError{"", "form"}]
	}
	seen := strings.HasPrefix(e.found.Name(), "“")
	switch {
	case chinese(r) && seen:
		return fmt.Sprintf("%s；第 %d 个字符%s不能用", may.zh, e.found.At, e.found.Name())
	case chinese(r):
		return fmt.Sprintf("%s；第 %d 个字符是看不见的字符（%s），请删去", may.zh, e.found.At, e.found.Name())
	case seen:
		return fmt.Sprintf("%s; character %d is %s, which is not allowed", may.en, e.found.At, e.found.Name())
	}
	return fmt.Sprintf("%s; character %d is invisible (%s); delete it", may.en, e.found.At, e.found.Name())
}

// refuseFields writes a bad request with every wrong field, each once: what the field is called, a word for the
// reason, and what its owner reads.
func refuseFields(w http.ResponseWriter, r *http.Request, wrong []wrongField) {
	type field struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
		Msg    string `json:"msg"`
	}
	var fields []field
	for i, w := range wrong {
		e := w.of()
		if slices.ContainsFunc(wrong[:i], func(former wrongField) bool { return former.of().field == e.field }) {
			continue // a field that is missing is also out of its range
		}
		fields = append(fields, field{e.field, e.reason, w.msg(r)})
	}
	refuse(w, r, http.StatusBadRequest, "bad_request", "有些内容填得不对", "Some fields are wrong",
		map[string]any{"fields": fields})
}
