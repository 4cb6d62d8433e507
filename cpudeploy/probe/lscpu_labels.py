"""What lscpu calls its lines, in the languages it speaks. Data.

We run it in the C locale; saved outputs, wrappers and half-translated versions are in whatever their
owner speaks. Labels are compared without case, with blanks made one, without the final colon.
"""

from __future__ import annotations

from typing import Final

LABELS: Final[dict[str, tuple[str, ...]]] = {
    "arch": (
        *("architecture", "architektur", "architektura", "arkitektur", "arquitectura", "arquitetura"),
        *("arhitektura", "architectuur", "architettura", "アーキテクチャ", "архитектура", "архітектура"),
        *("mimari", "kiến trúc", "架构", "架構", "体系结构", "아키텍처"),
    ),
    "cpus": (
        *("cpu(s)", "cpu", "počet cpu", "cpu'er", "processeur(s)", "cpu(-a)", "cpu's", "cpu(er)"),
        *("i̇şlemciler", "işlemciler", "процесори"),
    ),
    "online": (
        *("on-line cpu(s) list", "seznam zapnutých cpu", "tilkoblet cpu(er) liste"),
        *("liste der online-cpu(s)", "lista de la(s) cpu(s) en línea", "liste de processeur(s) en ligne"),
        *("popis online cpu-a", "オンラインになっている cpu のリスト", "online cpu's-lijst"),
        *("lista aktywnych cpu", "lista das cpus online", "lista de cpu(s) on-line"),
        *("lista över aktiva cpu(er)", "çevrimiçi işlemci(ler) listesi", "список робочих цп"),
        *("danh sách cpu trực tuyến", "在线 cpu 列表", "on-line cpu(s)-liste"),
    ),
    "offline": (
        *("off-line cpu(s) list", "seznam vypnutých cpu", "frakoblet cpu(er) liste"),
        *("liste der offline-cpu(s)", "lista de la(s) cpu(s) fuera de línea"),
        *("liste de processeur(s) hors ligne", "popis offline cpu-a"),
        *("オフラインになっている cpu のリスト", "offline cpu's-lijst", "lista nieaktywnych cpu"),
        *("lista das cpus offline", "lista de cpu(s) off-line", "lista över inaktiva cpu(er)"),
        *("çevrimiçi işlemci listesi", "список вимкнених цп", "danh sách cpu ngoại tuyến"),
        *("离线 cpu 列表",),
    ),
    "threads": (
        *("thread(s) per core", "vláken na jádro", "tråde per kerne", "thread(s) pro kern"),
        *("hilo(s) de procesamiento por núcleo", "core bakoitzeko hari kopurua", "thread(s) par cœur"),
        *("dretva po jezgri", "thread(s) setiap inti", "コアあたりのスレッド数", "draden per kern"),
        *("wątków na rdzeń", "tópicos por núcleo", "thread(s) per núcleo", "tråd(ar) per kärna"),
        *("çekirdek başına iş parçacığı", "потоков на ядро", "потоків на ядро", "số tuyến mỗi lõi"),
        *("每个核的线程数", "每核心執行緒數", "thread per core"),
    ),
    "cores": (
        *("core(s) per socket", "jader na patici", "kerner per sokkel", "kern(e) pro sockel"),
        *("kern(e) pro socket", "núcleo(s) por «socket»", "núcleo(s) por socket"),
        *("socket bakoitzeko core kopurua", "cœur(s) par socket", "jezgra po podnožju"),
        *("inti setiap soket", "ソケットあたりのコア数", "kernen per voet", "rdzeni na gniazdo"),
        *("núcleos por socket", "núcleo(s) por soquete", "ядер на сокет", "kärn(or) per uttag"),
        *("soket başına çekirdek", "số lõi mỗi đế cắm", "每个座的核数", "每通訊端核心數"),
    ),
    "cluster_cores": (
        *("core(s) per cluster", "jader na klastr", "kern(e) pro cluster", "núcleo(s) por «cluster»"),
        *("cœur(s) par cluster", "jezgr(a/e) po klasteru", "rdzeni na klaster", "núcleos por cluster"),
        *("núcleo(s) por cluster", "ядер на кластер", "每个集群的核数"),
    ),
    "sockets": (
        *(
            "socket(s)",
            "cpu socket(s)",
            "patic",
            "sokler",
            "sockel",
            "«socket(s)»",
            "cpu podnožja",
            "ソケット数",
        ),
        *("cpu-voeten", "gniazd", "sockets", "soquete(s)", "сокетов", "сокети", "uttag", "soket(ler)"),
        *("số đế cắm", "座"),
    ),
    "book_sockets": (
        *("socket(s) per book", "patic na knihu", "sockel pro buch", "«socket(s)» por libro"),
        *("socket(s) par livre", "podnožja po knjizi", "ブックあたりのソケット数", "voeten per boek"),
        *("gniazd na tom", "sockets por livro", "soquete(s) por book", "uttag per bok"),
        *("kitap başına soket", "сокетів на книгу", "每个 book 的座数", "sokler per bog"),
    ),
    "books": (
        *("book(s)", "knihy", "buch/bücher", "libro(s)", "livre(s)", "knjiga", "ブック数", "boeken"),
        *("tomów", "livros", "böcker", "kitap(lar)", "книги", "bøger"),
    ),
    "drawer_books": (
        *("book(s) per drawer", "knih na zásuvku", "buch/bücher pro schublade", "libro(s) por cajón"),
        *("livre(s) par tiroir", "knjiga po ladici", "boeken per lade", "tomów na półkę"),
        *("livros por gaveta", "book(s) por drawer", "böcker per låda", "sürgü başına kitap"),
        *("книг на шухляду", "每个抽屉里的 book 数", "bøger per skuffe"),
    ),
    "drawers": (
        *("drawer(s)", "zásuvky", "schublade(n)", "cajón(es)", "tiroir(s)", "ladica", "lades", "półek"),
        *("gavetas", "lådor", "sürgü(ler)", "шухляд", "抽屉", "skuffer"),
    ),
    "model": (
        *("model name", "název modelu", "modelnavn", "modellname", "nombre del modelo", "mallinimi"),
        *("nom de modèle", "ime modela", "モデル名", "modelnaam", "nazwa modelu", "nome do modelo"),
        *("имя модели", "modellnamn", "modem ismi", "model ismi", "назва моделі", "tên mô hình"),
        *("型号名称", "nome modello"),
    ),
    "mhz": (
        *("cpu max mhz", "cpu max. mhz", "cpu maks. mhz", "maximale taktfrequenz der cpu"),
        *("cpu mhz máx.", "vitesse maximale du processeur en mhz", "cpu max frekvencija (mhz)"),
        *("cpu 最大 mhz", "max. cpu-frequentie (mhz)", "cpu mhz máximos", "işlemci en yüksek mhz"),
        *("макс. частота процесора у мгц", "tần số đồng hồ cpu tối đa (mhz)", "i̇şlemci en yüksek mhz"),
    ),
    "flags": (
        *("flags", "isa", "příznaky", "flag", "markierungen", "indicadores", "liput", "drapeaux"),
        *("flagovi", "フラグ", "vlaggen", "flagi", "bandeiras", "opções", "флаги", "flaggor"),
        *("bayraklar", "прапорці", "标记"),
    ),
}
"""Field → labels that name it. NUMA lines need none: all languages call it NUMA."""
