# ruff: noqa: RUF001  (texts in other scripts)
"""Made-up notes of a clinic in several languages, with the department as class."""

from itertools import product
from typing import Final

CLASSES: Final = ("heart", "lung", "bone", "skin")

FINDINGS: Final = {
    "en": {
        "heart": "chest pain|an irregular pulse|high blood pressure|a weak heart|swollen legs in heart failure",
        "lung": "a dry cough|shortness of breath|pneumonia|asthma at night|a rattling noise over the lungs",
        "bone": "a broken wrist|pain in the hip|a torn ligament in the knee|back pain after a fall|a swollen ankle",
        "skin": "an itching rash|a dark mole on the back|eczema on both hands|a burn on the forearm|"
        "acne on the face",
    },
    "de": {
        "heart": "Schmerzen in der Brust|einen unregelmäßigen Puls|hohen Blutdruck|eine Herzschwäche|"
        "geschwollene Beine bei Herzinsuffizienz",
        "lung": "trockenen Husten|starke Atemnot|eine Lungenentzündung|nächtliches Asthma|"
        "ein Rasseln über der Lunge",
        "bone": "einen Bruch des Handgelenks|Schmerzen in der Hüfte|einen Bänderriss am Knie|"
        "Rückenschmerzen nach einem Sturz|einen geschwollenen Knöchel",
        "skin": "einen juckenden Ausschlag|ein dunkles Muttermal am Rücken|Ekzeme an beiden Händen|eine Verbrennung am "
        "Unterarm|Akne im Gesicht",
    },
    "fr": {
        "heart": "des douleurs dans la poitrine|un pouls irrégulier|une tension élevée|une faiblesse cardiaque|"
        "des jambes enflées par une insuffisance cardiaque",
        "lung": "une toux sèche|un fort essoufflement|une pneumonie|de l'asthme nocturne|des râles pulmonaires",
        "bone": "une fracture du poignet|des douleurs à la hanche|une rupture du ligament du genou|"
        "un mal de dos après une chute|une cheville enflée",
        "skin": "une éruption qui démange|un grain de beauté foncé dans le dos|de l'eczéma aux deux mains|"
        "une brûlure à l'avant-bras|de l'acné sur le visage",
    },
    "zh": {
        "heart": "胸口疼痛|脉搏不规律|血压偏高|心脏功能减弱|心力衰竭引起的双腿浮肿",
        "lung": "干咳|呼吸困难|肺炎|夜间哮喘|肺部有杂音",
        "bone": "手腕骨折|髋部疼痛|膝关节韧带撕裂|摔倒后背痛|脚踝肿胀",
        "skin": "发痒的皮疹|背部有深色的痣|双手湿疹|前臂烧伤|脸上有痤疮",
    },
    "ar": {
        "heart": "ألم في الصدر|نبض غير منتظم|ضغط دم مرتفع|ضعف في القلب|تورم في الساقين بسبب قصور القلب",
        "lung": "سعال جاف|ضيق شديد في التنفس|التهاب رئوي|ربو ليلي|خشخشة في الرئتين",
        "bone": "كسر في المعصم|ألم في الورك|تمزق في رباط الركبة|ألم في الظهر بعد سقوط|تورم في الكاحل",
        "skin": "طفح جلدي مع حكة|شامة داكنة على الظهر|أكزيما في اليدين|حرق في الساعد|حب الشباب في الوجه",
    },
}
"""Findings of each class, by language."""

FRAMES: Final = {
    "en": (
        "The patient came to us on Monday because of {}. We advise rest and a check in two weeks.",
        "For three days she has had {}. The blood values were normal, and she could go home.",
        "On admission we found {}. The treatment went well, and he was discharged on Friday.",
        "He reports {} since last year. The tablets helped little, so we changed the dose.",
    ),
    "de": (
        "Der Patient kam am Montag zu uns und hatte {}. Wir empfehlen Ruhe und eine Kontrolle in zwei Wochen.",
        "Seit drei Tagen hat sie {}. Die Blutwerte waren unauffällig, und sie konnte nach Hause gehen.",
        "Bei der Aufnahme sahen wir {}. Die Behandlung verlief gut, und er wurde am Freitag entlassen.",
        "Er hat seit dem letzten Jahr {}. Die Tabletten halfen wenig, deshalb haben wir die Dosis geändert.",
    ),
    "fr": (
        "Le patient est venu lundi et présentait {}. Nous conseillons du repos et un contrôle dans deux semaines.",
        "Depuis trois jours, elle a {}. Les analyses de sang étaient normales et elle a pu rentrer à la maison.",
        "À l'admission, nous avons constaté {}. Le traitement s'est bien passé et il est sorti vendredi.",
        "Depuis l'année dernière, il signale {}. Les comprimés ont peu aidé, nous avons donc changé la dose.",
    ),
    "zh": (
        "患者星期一来我院就诊，主要症状是{}。建议休息，两周后复查。",
        "三天以来她一直有{}的情况。血液检查正常，可以回家。",
        "入院时我们发现{}。治疗顺利，他星期五出院。",
        "他从去年开始有{}的问题。药片效果不大，所以我们调整了剂量。",
    ),
    "ar": (
        "جاء المريض إلينا يوم الاثنين وكان لديه {}. ننصح بالراحة وبفحص بعد أسبوعين.",
        "منذ ثلاثة أيام لديها {}. كانت نتائج تحليل الدم طبيعية واستطاعت العودة إلى البيت.",
        "عند الدخول وجدنا {}. سار العلاج بشكل جيد وخرج يوم الجمعة.",
        "لديه {} منذ العام الماضي. لم تساعد الأقراص كثيرا، لذلك غيّرنا الجرعة.",
    ),
}
"""Notes with a gap for the finding, by language."""


def notes(language: str, frames: slice = slice(None)) -> list[tuple[str, str]]:
    """Return notes with their class, five findings of each class in each frame."""
    findings = FINDINGS[language]
    rows = []
    for label in CLASSES:
        for frame, finding in product(FRAMES[language][frames], findings[label].split("|")):
            rows.append((frame.format(finding), label))
    return rows
